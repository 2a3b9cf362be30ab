"""The picture of `top` is drawn from what is known, a width and a height alone."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from adapters.cli import drawn, tables, top, top_frame, top_state
from adapters.cli.top_frame import View
from adapters.cli.top_state import Part, State

GOLDEN = Path(__file__).parent / "golden_top"
NOW = 1_800_000_000_000
MINUTE = 60_000


def capacity(pool: str, resource: str, *amounts: int, **more: int) -> dict[str, Any]:
    names = ("allocated", "reserved", "available")
    row = {"poolId": f"pool_{pool}", "poolName": pool, "gpuModel": "H100", "resource": resource, "at": NOW}
    return row | dict(zip(names, amounts, strict=True)) | more


def claim(number: int, state: str = "pending", **more: Any) -> dict[str, Any]:
    row = {
        "id": f"rsv_{number:026}",
        "tenantId": "acme",
        "poolId": "pool_h100",
        "state": state,
        "stateReason": "NoCapacity" if state == "pending" else None,
        "degraded": None,
        "startsAt": None,
        "earliestStart": None,
        "devices": [{"class": "gpu", "count": 8}],
        "scalars": {},
        "nodes": 1,
        "spot": False,
        "gpuCount": 8,
        "createdAt": NOW - number * MINUTE,
        "queuePosition": None,
        "stateDetail": "8 nodes asked, 2 fit: 18 nodes with 0 free" if state == "pending" else None,
    }
    return row | more


def node(name: str, *reasons: tuple[str, int], **more: Any) -> dict[str, Any]:
    row = {
        "id": f"node_{name}",
        "name": name,
        "poolId": "pool_h100",
        "role": "host",
        "provisionState": "adopted",
        "connectivity": "connected",
        "cordoned": None,
        "maintenance": [],
        "schedulable": not reasons,
        "unschedulableReasons": [{"reason": reason, "since": since} for reason, since in reasons],
    }
    return row | more


def instance(name: str, state: str, since: int, **more: Any) -> dict[str, Any]:
    row = {"id": f"inst_{name}", "name": name, "tenantId": "acme", "state": state, "stateSince": since}
    row |= {"stateReason": None, "poolId": "pool_vps", "nodeName": "vps-01", "flavorName": "small"}
    return row | more


def event(position: int, type_: str, stream: str, actor: str = "identity:platform/root", **data: str) -> dict[str, Any]:
    at = NOW - 1_000 * (100 - position)
    return {"position": position, "type": type_, "stream": stream, "actor": actor, "recordedAt": at, "data": data}


FLEET = State(
    server="http://127.0.0.1:8080",
    scope="fleet",
    answered_at=NOW - 500,
    following=True,
    parts={
        "capacity": Part(
            (
                capacity("h100", "disk", 0, 0, 160, total=160, unschedulable=0),
                capacity("h100", "gpu", 81, 16, 47, total=160, unschedulable=16),
                capacity("h100", "memoryMiB", 1_048_576, 0, 40_265_304, total=41_313_880, unschedulable=0),
                capacity("vps", "gpu", 1, 0, 7, total=8, unschedulable=0),
            )
        ),
        "pools": Part(),
        "reservations": Part(
            (
                claim(3, earliestStart=NOW + 125 * MINUTE, nodes=2, gpuCount=16),
                claim(90, stateReason="QueueAhead", tenantId="globex", spot=True),
                claim(2, "awaiting-confirmation", stateReason="OverBudget", startsAt=NOW + 3_000 * MINUTE),
                claim(500, "active"),
                claim(600, "active", degraded="NodeLost"),
            )
        ),
        "nodes": Part(
            (
                node("h100-00"),
                node("h100-01", ("Cordoned", NOW - 180 * MINUTE), cordoned="fan 3 \x1b[2J"),
                node("h100-02", ("NotConnected", NOW - MINUTE), ("Cordoned", NOW - 9 * MINUTE), connectivity="lost"),
                node("north-site-agent", ("NotHost", NOW), role="site"),
                node("old", ("NotProvisioned", NOW), provisionState="retired"),
            )
        ),
        "instances": Part(
            (
                instance("web", "running", NOW - 5 * MINUTE),
                instance("db", "unknown", NOW - MINUTE, stateReason="NodeLost"),
            )
        ),
    },
    events=(
        event(99, "node.connectivity_changed.1", "node_h100-02", "controller:liveness"),
        event(98, "node.cordoned.1", "node_h100-01", reason="fan 3"),
        event(97, "reservation.placed.1", "rsv_1", "identity:acme/ann"),
    ),
)
TENANT = replace(
    FLEET,
    scope="tenant",
    following=False,
    refused=("nodes", "events"),
    events=(),
    parts={
        "capacity": Part((capacity("h100", "gpu", 8, 0, 40, limit=64), capacity("l4", "gpu.slot", 40, 0, 0, limit=32))),
        "reservations": Part((claim(3, queuePosition=2),)),
        "instances": Part(()),
    },
)
CASES = {
    "fleet_80x24": (FLEET, View(80, 24, NOW)),
    "fleet_130x40_ascii": (FLEET, View(130, 40, NOW, marks=drawn.ASCII)),
    "fleet_60x12": (FLEET, View(60, 12, NOW)),
    "one_pool_by_size": (FLEET, View(100, 24, NOW, pool="pool_h100", sort="size")),
    "plain": (FLEET, View(now=NOW)),
    "tenant_80x16": (TENANT, View(80, 16, NOW)),
    "stale": (replace(TENANT, trouble="cannot reach http://127.0.0.1:8080: Connection refused"), View(80, 16, NOW)),
    "paused": (FLEET, View(80, 8, NOW + 60 * MINUTE, paused=NOW)),
    "never_answered": (State(server="http://127.0.0.1:1", trouble="Connection refused"), View(80, 6, NOW)),
}


def drawing(state: State, view: View) -> str:
    return "\n".join(drawn.text(line).rstrip() for line in top_frame.frame(state, view)) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_a_picture_is_the_one_that_was_agreed_on(name):
    """To agree on new ones: `python tests/adapters/cli/test_cli_top_frame.py`, and look at what changed."""
    assert drawing(*CASES[name]) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("width", [1, 10, 20, 39, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 7, 24, 100])
def test_no_size_makes_it_larger_than_the_terminal(width, height):
    for state in (FLEET, TENANT):
        lines = top_frame.frame(state, View(width, height, NOW))
        assert len(lines) == height
        assert max(tables.columns_of(drawn.text(line)) for line in lines) <= width


def test_of_a_fleet_that_is_down_only_what_has_room_is_drawn():
    nodes = tuple(node(f"n{n:05}", ("NotConnected", NOW - n)) for n in range(10_000))
    lines = [
        drawn.text(line) for line in top_frame.frame(replace(FLEET, parts={"nodes": Part(nodes)}), View(80, 24, NOW))
    ]
    assert lines[1] == "NODES  10000 adopted; 0 schedulable, 10000 not: NotConnected 10000"
    shown = sum("  n0" in line for line in lines)
    assert f"  … {10_000 - shown} more" in lines


def test_colours_are_for_terminals_that_have_them():
    line = drawn.line("h100 ", drawn.Span("##", "allocated"), drawn.Span("", "reserved"), " 2")
    assert drawn.paint(line, colours=False) == "h100 ## 2"
    assert drawn.paint(line, colours=True) == "h100 \x1b[34m##\x1b[0m 2"


@pytest.mark.parametrize(
    ("amounts", "width", "whole", "shares"),
    [
        ((81, 16, 47, 16), 20, 160, [10, 2, 6, 2]),
        ((1, 0, 9_999, 0), 10, 10_000, [1, 0, 9, 0]),
        ((0, 0, 0, 0), 10, 0, [0, 0, 0, 0]),
        ((0, 0, 32, 0), 10, 64, [0, 0, 5, 0]),
        ((40, 0, 0, 0), 10, 32, [10, 0, 0, 0]),
        ((1, 1, 1, 1), 10, 1_000, [1, 1, 1, 1]),
    ],
)
def test_what_there_is_has_a_cell_and_all_of_them_fit(amounts, width, whole, shares):
    assert drawn.cells(amounts, width, whole) == shares


def test_keys_choose_the_pool_and_the_order_and_hold_the_picture():
    view = View(80, 24, NOW)
    assert [top.turned(view, key, FLEET).pool for key in ("tab", "right", "left")] == ["pool_h100"] * 2 + ["pool_vps"]
    last = view._replace(pool="pool_vps")
    assert (top.turned(last, "tab", FLEET).pool, top.turned(last, "back", FLEET).pool) == (None, "pool_h100")
    assert top.turned(view._replace(pool="pool_gone"), "tab", FLEET).pool == "pool_h100"
    assert [top.turned(view, key, FLEET).sort for key in ("s", "down", "up")] == ["start", "start", "size"]
    held = top.turned(view, "p", FLEET)
    assert (held.paused, top.turned(held, " ", FLEET).paused) == (NOW, None)
    assert top.turned(view, "x", FLEET) == view


def test_a_server_that_says_nothing_has_not_answered():
    assert not top_frame.stale(FLEET, NOW)
    assert top_frame.stale(FLEET, NOW + top_frame.STALE_MS)


def test_the_document_says_what_was_left_out():
    told = top_state.document(TENANT)
    assert (told["nodes"], told["events"], told["refused"]) == (None, None, ("nodes", "events"))
    assert [row["id"] for row in told["queue"]] == [claim(3)["id"]]
    fleet = top_state.document(FLEET)
    assert (fleet["nodes"]["total"], fleet["nodes"]["schedulable"]) == (3, 1)
    assert fleet["nodes"]["reasons"] == {"Cordoned": 2, "NotConnected": 1}
    assert fleet["reservations"] == {"active": 2, "awaiting-confirmation": 1, "pending": 2}


if __name__ == "__main__":
    for case, seen in CASES.items():
        (GOLDEN / f"{case}.txt").write_text(drawing(*seen))
