"""A claim in the queue preempts spot as it is placed: around what those ahead were promised."""

from msgspec.structs import replace
from test_placement import Compare, node, pool
from test_queueing import MINUTE, NOW, Cell, job

from domain import calendar, queueing


def with_spot(made: calendar.Calendar, id: str, *held: str, minutes: int = 90, since: int = 0) -> None:
    for atom in held:
        whose = calendar.Spot(id, 0, since)
        made.book(f"{id}/{atom}", atom[0], [atom], {}, 0, NOW + minutes * MINUTE, spot=whose)


def preempting(cell: Cell, seek: bool = True) -> list[queueing.Verdict]:
    """A look at the queue in which whoever is preempted has five minutes' notice."""
    queue = [each.waiter(NOW) for each in cell.waiting]
    return queueing.plan(cell.pool, queue, NOW, Compare(), seek=seek, notice_ms=5 * MINUTE)


def test_who_waits_preempts_after_the_notice_and_only_if_it_would_wait_longer() -> None:
    cell = Cell(pool(node("a", 1), node("b", 1)))
    with_spot(cell.pool, "spot", "a-g0")
    cell.pool.book("soon", "b", ["b-g0"], {}, 0, NOW + 4 * MINUTE)
    cell.waiting = [job("first", 1, minutes=60, rank=1), job("second", 1, minutes=60, rank=2)]
    first, second = preempting(cell)
    assert (first.placed, first.guard and first.guard.start) == (None, NOW + 4 * MINUTE)
    assert second.preempts is not None
    assert second.preempts.victims == ("spot",)
    assert (second.window, second.ahead) == ((NOW + 5 * MINUTE, NOW + 65 * MINUTE), 1)


def test_nobody_preempts_for_a_place_that_another_ahead_was_promised() -> None:
    cell = Cell(pool(node("a", 2)))
    with_spot(cell.pool, "spot", "a-g0", minutes=20)
    cell.pool.book("runs", "a", ["a-g1"], {}, 0, NOW + 20 * MINUTE)
    both = job("both", 2, minutes=60, rank=1)
    cell.waiting = [both, job("long", 1, minutes=60, rank=2), job("short", 1, minutes=15, rank=3)]
    first, long, short = preempting(cell)
    assert first.guard is not None
    assert first.guard.start == NOW + 20 * MINUTE
    assert long.placed is None
    assert long.guard is not None
    assert long.guard.start == NOW + 80 * MINUTE
    assert short.preempts is not None
    assert short.window == (NOW + 5 * MINUTE, NOW + 20 * MINUTE)


def test_spot_that_waits_preempts_nobody() -> None:
    cell = Cell(pool(node("a", 1)))
    with_spot(cell.pool, "spot", "a-g0")
    waiter = replace(job("other", 1, minutes=60, rank=1).waiter(NOW), spot=True)
    (verdict,) = queueing.plan(cell.pool, [waiter], NOW, Compare(), notice_ms=0)
    assert (verdict.placed, verdict.guard and verdict.guard.start) == (None, NOW + 90 * MINUTE)


def test_a_window_ahead_is_kept_by_preempting_what_is_booked_in_it() -> None:
    cell = Cell(pool(node("a", 1)))
    with_spot(cell.pool, "spot", "a-g0")
    later = job("later", 1, minutes=30, rank=1)
    later.starts_at = NOW + 60 * MINUTE
    cell.waiting = [later]
    (verdict,) = preempting(cell)
    assert verdict.window == (later.starts_at, later.starts_at + 30 * MINUTE)
    assert verdict.preempts is not None
    assert verdict.preempts.ends_at == later.starts_at
