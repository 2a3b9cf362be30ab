"""The statements of an append: their order, their locks, and what a rebuild repeats of them (architecture.md §2)."""

from pathlib import Path

import msgspec
import pytest

from adapters.postgres.mapper import Stored, decode
from domain import registry, reservation
from domain.event import Meta, Recorded, tag
from projections import table
from projections.projection import Phase, Statement, plan, replay

STORED = (Path(__file__).parents[1] / "stored" / "events.jsonl").read_bytes().splitlines()
PREFIX = {
    tag: prefix for prefix, kind in registry.KINDS.items() for tag in (e.__struct_config__.tag for e in kind.events)
}


def recorded(line: bytes) -> Recorded:
    name = _name(line)
    return decode(f"{PREFIX[name]}_1", 1, name, line, 1, 1)


def _name(line: bytes) -> str:
    return str(msgspec.json.decode(msgspec.json.decode(line, type=Stored).data)["type"])


EVENTS = [recorded(line) for line in STORED if _name(line) in registry.TYPES]
IDS = [tag(one.event) for one in EVENTS]


def touches(statement: Statement, *words: str) -> bool:
    return any(word in statement.sql for word in words)


@pytest.mark.parametrize("one", EVENTS, ids=IDS)
def test_whatever_books_moves_frees_or_forbids_atoms_locks_the_nodes_gate_first(one: Recorded) -> None:
    statements = plan(table.INLINE, [one])
    writes = [s for s in statements if not s.only_live and touches(s, "device_bookings", "UPDATE node_gates")]
    gates = [s for s in statements if s.phase is Phase.NODE_GATE]
    assert len(gates) == (1 if writes else len(gates)) <= 1
    assert all(statements.index(gates[0]) < statements.index(write) for write in writes)


@pytest.mark.parametrize("one", EVENTS, ids=IDS)
def test_a_quota_is_checked_under_its_rows_lock_by_a_statement_of_its_own(one: Recorded) -> None:
    statements = plan(table.INLINE, [one])
    for check in (s for s in statements if s.phase is Phase.QUOTA_CHECK):
        locks = [s for s in statements if s.phase is Phase.QUOTA_LOCK and touches(s, "quota_scopes")]
        assert len(locks) == 1
        assert check.key[1:] in locks[0].params[0]
        assert statements.index(locks[0]) < statements.index(check)


@pytest.mark.parametrize("one", EVENTS, ids=IDS)
def test_a_budget_is_changed_and_checked_under_its_rows_lock(one: Recorded) -> None:
    statements = plan(table.INLINE, [one])
    locks = [s for s in statements if s.phase is Phase.QUOTA_LOCK and touches(s, "FROM budgets")]
    for other in statements:
        if touches(other, "UPDATE budgets", "INTO budget_spent", "BUDGET_EXCEEDED"):
            assert len(locks) == 1
            assert statements.index(locks[0]) < statements.index(other)


@pytest.mark.parametrize("one", EVENTS, ids=IDS)
def test_a_rebuild_repeats_every_write_and_no_lock_or_guard(one: Recorded) -> None:
    live = plan(table.INLINE, [one])
    again = [s for of in table.INLINE for s in replay(of, [one])]
    assert sorted(map(repr, again)) == sorted(repr(s) for s in live if not s.only_live)
    assert all(s.only_live for s in live if touches(s, "FOR NO KEY UPDATE", "FOR SHARE", "refuse("))


def test_the_statements_of_an_append_run_phase_by_phase_whatever_the_order_of_its_events() -> None:
    for events in (EVENTS, EVENTS[::-1]):
        phases = [statement.phase for statement in plan(table.INLINE, events)]
        assert phases == sorted(phases)


def _torn_down(node_id: str) -> Recorded:
    return Recorded("rsv_1", 1, reservation.TornDown(f"a/{node_id}", node_id, 1), Meta("a"), "evt_1")


def test_all_node_gates_of_an_append_are_one_statement_which_takes_them_in_id_order() -> None:
    cancelled = Recorded("rsv_0", 1, reservation.Cancelled("x", 1), Meta("a"), "evt_0")
    statements = plan(table.INLINE, [_torn_down("node_2"), cancelled, _torn_down("node_1"), _torn_down("node_2")])
    (gate,) = (s for s in statements if s.phase is Phase.NODE_GATE)
    assert gate.params == (["node_1", "node_2"], ["rsv_0"])
    assert "ORDER BY node_id FOR NO KEY UPDATE" in gate.sql


def test_a_pools_gate_is_locked_once_in_the_stronger_of_two_modes() -> None:
    queued = next(one for one in EVENTS if isinstance(one.event, reservation.Queued))
    placed = next(one for one in EVENTS if isinstance(one.event, reservation.Placed))
    for events in ([queued, placed], [placed, queued]):
        (gate,) = (s for s in plan(table.INLINE, events) if s.phase is Phase.POOL_GATE)
        assert "FOR NO KEY UPDATE" in gate.sql


def test_what_frees_runs_before_what_takes_and_a_streams_writes_keep_their_order() -> None:
    release = Recorded("rsv_1", 1, reservation.ReleaseStarted("x", 1, {}), Meta("a"), "evt_1")
    frees = [s for s in plan(table.INLINE, [release, _torn_down("node_1")]) if s.phase is Phase.FREE]
    assert [touches(s, "freed = true") for s in frees if "device_bookings" in s.sql][:1] == [False]
    assert {s.key for s in frees} == {"rsv_1"}
    assert Phase.FREE < Phase.TAKE
