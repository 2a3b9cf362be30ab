"""Which slices of a partitioned GPU are sold, whatever the driver reports (domain.md §4; anchors.md §2.7; O22)."""

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import device, mig
from domain.inventory import NodeInventory
from domain.mig import Slice

CARD = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
MIG = "MIG-11111111-aaaa-4bbb-8ccc-00000000000"
PARTS = {("A100", 80): "NVIDIA A100-SXM4-80GB", ("H100", 80): "NVIDIA H100 80GB HBM3", ("A30", 24): "NVIDIA A30"}


def layouts(model: str, memory_gb: int) -> st.SearchStrategy[tuple[Slice, ...]]:
    """Legal layouts: of random slices each that still fits."""
    every = [Slice(p.name, start) for p in mig.profiles(model, memory_gb) for start in p.starts]

    def add(chosen: tuple[Slice, ...], piece: Slice) -> tuple[Slice, ...]:
        try:
            mig.check_layout(model, memory_gb, (*chosen, piece))
        except mig.IllegalLayout:
            return chosen
        return (*chosen, piece)

    def grown(pieces: list[Slice]) -> tuple[Slice, ...]:
        return list(accumulate(pieces, add, initial=()))[-1]

    return st.lists(st.sampled_from(every), min_size=1, max_size=20).map(grown)


def told(
    part: tuple[str, int], layout: tuple[Slice, ...], instances: list[dict[str, Any]], **more: Any
) -> device.Derived:
    card = {
        "uuid": CARD,
        "name": PARTS[part],
        "memoryMiB": part[1] * 1024,
        "migMode": "enabled",
        "migInstances": instances,
    } | more
    found = NodeInventory.convert({"schema": "NodeInventory/v1", "gpus": [card]})
    return device.devices(found, node_id="node_1", pool_class="metal-host", sharing="mig", mig_layout=layout)


def reported(pieces: tuple[Slice, ...]) -> list[dict[str, Any]]:
    return [
        {"gi": 20 - n, "ci": 0, "uuid": f"{MIG}{n:x}", "profile": piece.profile, "start": piece.start}
        for n, piece in enumerate(pieces)
    ]


def atoms(derived: device.Derived) -> set[str]:
    return {one.id for one in derived.devices if one.bookable}


@st.composite
def wanted_and_standing(draw: st.DrawFn) -> tuple[tuple[str, int], tuple[Slice, ...], tuple[Slice, ...]]:
    part = draw(st.sampled_from(sorted(PARTS)))
    return part, draw(layouts(*part)), draw(layouts(*part))


@given(wanted_and_standing())
def test_exactly_the_slices_that_stand_where_the_layout_has_them_are_atoms(
    case: tuple[tuple[str, int], tuple[Slice, ...], tuple[Slice, ...]],
) -> None:
    part, layout, standing = case
    derived = told(part, layout, reported(standing))
    both = {(piece.profile, piece.start) for piece in layout} & {(piece.profile, piece.start) for piece in standing}
    assert atoms(derived) == {f"{CARD}/gi{start}/ci0" for _, start in both}
    assert {d.id for d in derived.devices if d.class_ == "gpu.mig"} == {
        f"{CARD}/gi{piece.start}/ci0" for piece in layout
    }
    assert bool(derived.partition_pending) is (set(layout) != set(standing))


@given(wanted_and_standing())
def test_a_parent_is_never_sold_with_its_slices(
    case: tuple[tuple[str, int], tuple[Slice, ...], tuple[Slice, ...]],
) -> None:
    part, layout, standing = case
    derived = told(part, layout, reported(standing))
    sold = [one for one in derived.devices if one.bookable]
    assert CARD not in {one.id for one in sold}
    size = {profile.name: profile.memory for profile in mig.profiles(*part)}
    assert sum(size[str(one.attributes["profile"])] for one in sold) <= (8 if part[0] != "A30" else 4)


@given(layouts("A100", 80), st.permutations(range(20)))
def test_after_a_boot_the_same_slices_are_the_same_atoms(layout: tuple[Slice, ...], numbers: list[int]) -> None:
    """O23: the driver deals its numbers and UUIDs anew; a slice is its place."""
    before = reported(layout)
    after = [one | {"gi": numbers[n], "uuid": f"{MIG}{15 - n:x}"} for n, one in enumerate(before)]
    assert atoms(told(("A100", 80), layout, before)) == atoms(told(("A100", 80), layout, after))
    gone = told(("A100", 80), layout, [])
    assert (atoms(gone), gone.partition_pending) == (set(), (CARD,))


@pytest.mark.parametrize(
    ("part", "profile", "says"),
    [
        (("A100", 80), "1g.10gb", {"profile": "MIG 1g.9gb"}),
        (("A100", 80), "1g.10gb", {"memoryMiB": 9856, "multiprocessors": 14}),
        (("H100", 80), "3g.40gb", {"profile": "1c.3g.39gb"}),
        (("A100", 80), "2g.20gb", {"memoryMiB": 19968, "multiprocessors": 28}),
        (("A30", 24), "2g.12gb", {"profile": "2g.11gb"}),
    ],
)
def test_a_drivers_own_name_or_figure_of_a_profile_is_the_profile(
    part: tuple[str, int], profile: str, says: dict[str, Any]
) -> None:
    derived = told(part, (Slice(profile, 0),), [{"gi": 9, "ci": 0, "uuid": MIG + "9", "start": 0} | says])
    assert atoms(derived) == {f"{CARD}/gi0/ci0"}
    assert derived.partition_pending == ()


def test_two_profiles_of_one_memory_are_told_apart_by_their_multiprocessors() -> None:
    half = {"gi": 9, "ci": 0, "uuid": MIG + "9", "start": 0, "memoryMiB": 19968}
    for multiprocessors, profile, other in ((14, "1g.20gb", "2g.20gb"), (28, "2g.20gb", "1g.20gb")):
        one = [half | {"multiprocessors": multiprocessors}]
        assert atoms(told(("A100", 80), (Slice(profile, 0),), one))
        assert not atoms(told(("A100", 80), (Slice(other, 0),), one))
