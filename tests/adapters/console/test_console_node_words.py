"""A node in words: no reason, condition, event or hardware is without, and devices stand in order."""

from typing import Any, get_args

import pytest

from adapters.console.pages import node_acts, node_devices, node_hardware, node_reasons, node_story
from commands import acceptance, hardware, health, node_provision, reconciling, twins
from domain import errors, node, provision, schedulability
from domain.event import tag
from given import SEVEN, inventory

TELLING = {*hardware.SETTLED, acceptance.FAILED, health.SKEW, health.STALE, reconciling.DRIFT, twins.DUPLICATE}
"""Every condition that the modules which raise them can raise."""


def shown(**fields: Any) -> dict[str, Any]:
    """A node as the API shows it, as far as the words look."""
    return {
        "provisionState": "adopted",
        "role": "host",
        "cordoned": None,
        "drain": None,
        "maintenance": [],
        "plannedMaintenance": [],
        "connectivity": "connected",
        "conditions": [],
        "unschedulableReasons": [],
    } | fields


def test_each_reason_and_no_other_has_advice() -> None:
    assert set(node_reasons.REASONS) == schedulability.REASONS


def test_each_condition_is_a_reason_or_is_told_with_advice() -> None:
    assert {*node_reasons.CONDITIONS} == TELLING - schedulability.BLOCKING
    assert schedulability.BLOCKING <= TELLING


def test_advice_names_operations_that_a_node_has() -> None:
    named = {
        act for advice in (*node_reasons.REASONS.values(), *node_reasons.CONDITIONS.values()) for act in advice.acts
    }
    assert named <= set(node_acts.ALL)


def test_reasons_come_oldest_first_with_what_is_known_of_each() -> None:
    told = node_reasons.why(
        shown(
            cordoned="fan",
            connectivity="lost",
            maintenance=[{"reason": "bios", "since": 7}],
            unschedulableReasons=[
                {"reason": "Cordoned", "since": 9},
                {"reason": "Maintenance", "since": 7},
                {"reason": "NotConnected", "since": 8},
                {"reason": "AcceptanceFailed", "since": 9},
            ],
            conditions=[{"type": "AcceptanceFailed", "message": "disks: slow", "since": 9}],
        )
    )
    assert [(one["reason"], one["details"]) for one in told] == [
        ("Maintenance", ["bios"]),
        ("NotConnected", ["it is lost"]),
        ("AcceptanceFailed", ["disks: slow"]),
        ("Cordoned", ["fan"]),
    ]


def test_what_is_as_it_should_be_is_no_complaint() -> None:
    reasons = [{"reason": name, "since": 1} for name in ("NotHost", "SpecNotObserved", "NotConnected")]
    agent = shown(role="site", connectivity="unreachable", unschedulableReasons=reasons)
    assert [one["reason"] for one in node_reasons.why(agent)] == ["NotConnected"]
    assert node_reasons.why(shown(provisionState="retired", unschedulableReasons=reasons)) == []


def test_each_event_of_a_node_and_no_other_is_told() -> None:
    assert set(node_story.KINDS) == {tag(event) for event in get_args(node.Events)}


@pytest.mark.parametrize("state", get_args(provision.Provision))
@pytest.mark.parametrize("verb", ["deploy", "rescue", "release", "retire"])
def test_what_is_offered_is_what_the_domain_allows(state: provision.Provision, verb: str) -> None:
    of = node.State(provision_state=state)
    try:
        allowed = bool(getattr(node_provision, verb)(of, 1))
    except errors.IllegalTransition:
        allowed = False
    assert (f"nodes.{verb}" in node_acts.legal(shown(provisionState=state))) == allowed


@pytest.mark.parametrize("state", get_args(provision.Provision))
def test_adopt_inspect_and_commission_are_offered_where_their_moves_are_legal(
    state: provision.Provision,
) -> None:
    offered = node_acts.legal(shown(provisionState=state))
    onward = provision.MOVES[state]
    assert ("nodes.adopt" in offered) == ("adopted" in onward or state == "failed")
    assert ("nodes.inspect" in offered) == ("inspecting" in onward)
    assert ("nodes.commission" in offered) == ("commissioning" in onward)


def test_a_machine_that_speaks_is_not_offered_to_be_called_off() -> None:
    assert "nodes.fence" not in node_acts.legal(shown())
    assert "nodes.fence" in node_acts.legal(shown(connectivity="lost"))


def test_nothing_is_offered_of_a_retired_node() -> None:
    assert node_acts.legal(shown(provisionState="retired", connectivity="disconnected")) == set()


def device(id: str, class_: str = "gpu", bookable: bool = True, **fields: Any) -> dict[str, Any]:
    return {"id": id, "class": class_, "bookable": bookable, "attributes": {}} | fields


def booking(device_id: str | None, from_: int, until: int | None = None) -> dict[str, Any]:
    return {"deviceId": device_id, "from": from_, "until": until, "reservationId": "rsv_x", "tenantId": "acme"}


def test_slices_stand_under_their_gpu_and_free_ones_are_one_line() -> None:
    slices = [
        device(f"G/gi{n}/ci0", "gpu.mig", parent="G", attributes={"profile": one["profile"], "start": one["start"]})
        for n, one in enumerate(SEVEN)
    ]
    lines = node_devices.lines(
        [device("G", bookable=False), *slices, device("disk", "disk")], [booking("G/gi2/ci0", 5)], shown(), 10
    )
    assert [(line.depth, line.count, line.shown) for line in lines] == [
        (0, 1, "G"),
        (1, 2, "1g.10gb at 0, 1"),
        (1, 1, "1g.10gb at 2"),
        (1, 4, "1g.10gb at 3, 4, 5, 6"),
        (0, 1, "disk"),
    ]
    assert lines[2].now == booking("G/gi2/ci0", 5)


def test_a_device_shows_what_holds_it_now_and_what_comes_next() -> None:
    held = [booking("G", at) for at in (50, 5, 20, 30, 40)]
    (line,) = node_devices.lines([device("G")], held, shown(), 10)
    assert line.now == booking("G", 5)
    assert [one["from"] for one in line.next] == [20, 30, 40]
    assert line.more == 1


def test_a_booked_device_that_is_gone_is_a_line_too() -> None:
    missing = shown(conditions=[{"type": "GpuCountMismatch", "names": ["H"], "message": "H"}])
    lines = node_devices.lines([device("G")], [booking("F", 5)], missing, 10)
    assert [(line.id, line.missing) for line in lines] == [("G", False), ("F", True), ("H", True)]


def test_scalars_are_bookings_of_no_device() -> None:
    assert node_devices.scalars([booking(None, 5), booking("G", 5)]) == [booking(None, 5)]


def test_hardware_is_told_as_far_as_it_was_reported() -> None:
    told = node_hardware.told(inventory(gpus=2))
    assert [part.title for part in told] == ["Machine", "Processors", "GPUs", "Memory: 1,024 GiB", "Network ports"]
    assert node_hardware.told({}) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"uuid": "G", "vfs": [1]}, ("new", "–", "uuid G")),
        ({"uuid": "G"}, None, ("gone", "uuid G", "–")),
        (8192, 4096, ("other", "8,192", "4,096")),
        (True, False, ("other", "yes", "no")),
    ],
)
def test_a_change_is_short_text_on_both_sides(before: Any, after: Any, expected: tuple[str, str, str]) -> None:
    told = node_hardware.change({"section": "gpus", "path": "p", "before": before, "after": after})
    assert (told["kind"], told["before"], told["after"]) == expected


def test_a_long_side_is_cut() -> None:
    assert len(node_hardware.side("x" * 5000)) == node_hardware.LONGEST + 1
