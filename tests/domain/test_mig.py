"""Which MIG layouts are legal (domain.md §2; anchors.md §2.7)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import mig
from domain.mig import Slice

Layout = tuple[Slice, ...]
PLAIN = {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}


def legal(model: str, memory_gb: int, layout: Layout) -> bool:
    try:
        mig.check_layout(model, memory_gb, layout)
    except mig.IllegalLayout:
        return False
    return True


def layouts(model: str, memory_gb: int, names: set[str] | None = None) -> Iterator[Layout]:
    """Every legal set of slices, the empty one included."""
    pieces = [
        Slice(p.name, start)
        for p in mig.profiles(model, memory_gb)
        if names is None or p.name in names
        for start in p.starts
    ]

    def grow(layout: Layout, begin: int) -> Iterator[Layout]:
        yield layout
        for index in range(begin, len(pieces)):
            longer = (*layout, pieces[index])
            if legal(model, memory_gb, longer):
                yield from grow(longer, index + 1)

    return grow((), 0)


def counts(found: Iterator[Layout]) -> tuple[int, int, int, int]:
    """Sets, multisets of profiles, maximal sets, maximal multisets."""
    sets = {frozenset(layout) for layout in found}
    pieces = frozenset().union(*sets)
    maximal = [one for one in sets if not any(one | {piece} in sets for piece in pieces - one)]

    def multiset(one: frozenset[Slice]) -> tuple[str, ...]:
        return tuple(sorted(piece.profile for piece in one))

    return len(sets), len(set(map(multiset, sets))), len(maximal), len(set(map(multiset, maximal)))


@pytest.mark.parametrize(
    ("model", "memory_gb", "names", "expected"),
    [
        ("H100", 80, PLAIN, (298, 38, 19, 14)),
        ("H100", 80, None, (2319, 128, 239, 64)),
        ("A30", 24, {"1g.6gb", "2g.12gb", "4g.24gb"}, (26, 10, 5, 4)),
    ],
)
def test_the_number_of_legal_layouts_is_the_documented_one(
    model: str, memory_gb: int, names: set[str] | None, expected: tuple[int, int, int, int]
) -> None:
    assert counts(layouts(model, memory_gb, names)) == expected


def test_the_maximal_layouts_of_the_seven_slice_part() -> None:
    sets = {frozenset(one) for one in layouts("A100", 80, PLAIN)}
    pieces = frozenset().union(*sets)
    maximal = [one for one in sets if not any(one | {piece} in sets for piece in pieces - one)]
    computes = {"".join(sorted(piece.profile[0] for piece in one)) for one in maximal}
    documented = "1111111 111112 11113 11122 1113 1114 1123 1222 123 124 223 33 34 7"
    assert computes == set(documented.split())


@pytest.mark.parametrize(
    ("layout", "index", "says"),
    [
        ([Slice("1g.10gb", 0), Slice("4g.40gb", 0)], 1, "overlaps"),
        ([Slice("4g.40gb", 4)], 0, "cannot start at 4"),
        ([Slice("1g.10gb", 7)], 0, "cannot start at 7"),
        ([Slice("1g.5gb", 0)], 0, "no profile 1g.5gb"),
        ([Slice("1g.10gb+me", 0), Slice("1g.10gb+me", 1)], 1, "media engines"),
        ([Slice("4g.40gb", 0), Slice("1g.10gb", 4), Slice("1g.10gb", 4)], 2, "overlaps"),
        ([Slice("7g.80gb", 0), Slice("1g.10gb", 6)], 1, "overlaps"),
    ],
)
def test_an_illegal_layout_is_refused_naming_the_slice(layout: list[Slice], index: int, says: str) -> None:
    with pytest.raises(mig.IllegalLayout, match=says) as refused:
        mig.check_layout("H100", 80, layout)
    assert refused.value.index == index


def test_a_product_name_serves_as_well_as_its_family() -> None:
    mig.check_layout("H100-SXM5-80GB", 80, [Slice("7g.80gb", 0)])
    mig.check_layout("NVIDIA H100 PCIe", 80, [Slice("7g.80gb", 0)])


@pytest.mark.parametrize(("model", "memory_gb"), [("L4", 24), ("other", 80), ("A100", 64), ("H100", None)])
def test_a_gpu_without_a_mig_table_takes_no_layout(model: str, memory_gb: int | None) -> None:
    with pytest.raises(mig.IllegalLayout, match="no MIG profiles are known"):
        mig.check_layout(model, memory_gb, [Slice("1g.10gb", 0)])


@given(st.permutations([Slice("3g.71gb", 4), Slice("2g.35gb", 2), Slice("1g.18gb", 0), Slice("1g.18gb", 1)]))
def test_a_layout_is_legal_in_any_order(layout: list[Slice]) -> None:
    assert legal("H200", 141, tuple(layout))


@pytest.mark.parametrize(
    ("model", "memory_gb", "name", "expected"),
    [
        ("H200", 141, "MIG 1g.16gb", "1g.18gb"),
        ("H100", 94, "1g.11gb", "1g.12gb"),
        ("H100", 80, "1c.3g.40gb", "3g.40gb"),
        ("A100", 80, "1g.10gb+me", "1g.10gb+me"),
        ("A100", 80, "1g.20gb", "1g.20gb"),
        ("A100", 80, "2g.10gb", None),
        ("A30", 24, "2g.12gb+me", "2g.12gb+me"),
        ("A30", 24, "7g.40gb", None),
        ("L4", 24, "1g.10gb", None),
    ],
)
def test_a_reported_name_means_the_profile_with_the_nearest_memory(
    model: str, memory_gb: int, name: str, expected: str | None
) -> None:
    assert mig.match(model, memory_gb, name=name) == expected


@pytest.mark.parametrize(
    ("model", "memory_gb", "memory_mib", "multiprocessors", "expected"),
    [
        ("A100", 80, 19968, 14, "1g.20gb"),
        ("A100", 80, 19968, 28, "2g.20gb"),
        ("A100", 40, 19968, 42, "3g.20gb"),
        ("A100", 80, 9856, 14, "1g.10gb"),
        ("H100", 80, 40448, 60, "3g.40gb"),
        ("H100", 80, 40448, None, None),
        ("H100", 80, 30000, 60, None),
    ],
)
def test_an_instance_without_a_name_is_known_by_memory_and_multiprocessors(
    model: str, memory_gb: int, memory_mib: int, multiprocessors: int | None, expected: str | None
) -> None:
    found = mig.match(model, memory_gb, memory_mib=memory_mib, multiprocessors=multiprocessors)
    assert found == expected
