"""The calendar's arithmetic against naive models, minute by minute."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st

from adapters.console import calendar_view, gantt
from adapters.console.gantt import Booking, Window

END = 40

SPANS = st.tuples(st.integers(-10, END), st.integers(1, 20), st.booleans(), st.booleans())


def booking(number: int, span: tuple[int, int, bool, bool], device: str = "gpu") -> Booking:
    from_, length, ends, reserved = span
    return Booking(
        device_id=device,
        node_id="node",
        pool_id="pool",
        reservation_id="rsv" if reserved else None,
        allocation_id=f"alloc{number}",
        tenant_id="acme",
        bound=False,
        from_=from_,
        until=from_ + length if ends else None,
    )


BOOKINGS = st.lists(SPANS, max_size=6).map(lambda spans: [booking(*pair) for pair in enumerate(spans)])


def holds(one: Booking, at: int, gap: int = 0) -> bool:
    gap = gap if one.reservation_id else 0
    return one.from_ - gap <= at and (one.until is None or at < one.until + gap)


@cases(BOOKINGS, st.integers(0, 5), st.integers(1, 4))
def test_gaps_are_every_stretch_in_which_nothing_holds_the_device(taken: list[Booking], gap: int, least: int) -> None:
    free = [at for at in range(END) if not any(holds(one, at, gap) for one in taken)]
    stretches: list[tuple[int, int]] = []
    for at in free:
        if stretches and stretches[-1][1] == at:
            stretches[-1] = (stretches[-1][0], at + 1)
        else:
            stretches.append((at, at + 1))
    expected = [span for span in stretches if span[1] - span[0] >= least]
    assert gantt.gaps(taken, (0, END), gap, least) == expected


@cases(BOOKINGS)
def test_bookings_in_one_lane_never_lie_beside_each_other(taken: list[Booking]) -> None:
    made = gantt.lanes(taken)
    assert sorted(one.allocation_id for lane in made for one in lane) == sorted(one.allocation_id for one in taken)
    assert all(sum(holds(one, at) for one in lane) <= 1 for lane in made for at in range(-10, END + 30))


@cases(BOOKINGS, BOOKINGS, st.integers(1, 15))
def test_a_cell_counts_the_devices_that_are_booked_at_any_time_of_it(
    first: list[Booking], second: list[Booking], step: int
) -> None:
    booked = {"a": first, "b": second}
    pieces = gantt.cells(Window(0, END), step)
    for load in gantt.load(["a", "b", "c"], booked, pieces):
        held = {name for name, taken in booked.items() for at in range(*load.cell) if any(holds(o, at) for o in taken)}
        assert (load.booked, load.of) == (len(held), 3)


@cases(st.dictionaries(st.integers(-5, END + 5), st.integers(0, 9)), st.integers(1, 15))
def test_a_cell_of_capacity_tells_the_least_of_its_instants(points: dict[int, int], step: int) -> None:
    pieces = gantt.cells(Window(0, END), step)
    expected = [min((free for at, free in points.items() if a <= at < b), default=None) for a, b in pieces]
    assert gantt.least(points.items(), pieces) == expected


@cases(BOOKINGS)
def test_every_bar_lies_within_the_chart_and_can_be_seen(taken: list[Booking]) -> None:
    window = Window(0, END)
    for one in taken:
        x, width = window.x(one.from_), window.width(one.from_, one.until)
        assert 0 <= x <= 100
        assert gantt.LEAST_WIDTH <= width <= 100


def test_what_has_no_end_reaches_the_right_edge() -> None:
    window = Window(0, END)
    assert window.x(END // 2) + window.width(END // 2, None) == 100


@pytest.mark.parametrize("name", calendar_view.SCALES)
@cases(day=st.dates(date(1972, 1, 1), date(8998, 12, 31)))
def test_a_view_holds_its_day_and_its_neighbours_join_it_without_a_gap(name: str, day: date) -> None:
    view = calendar_view.chosen({"view": name, "date": day.isoformat()}, 0)
    noon = int((datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=12)).timestamp() * 1000)
    assert view.window.from_ <= noon < view.window.until
    assert (view.cells[0][0], view.cells[-1][1]) == (view.window.from_, view.window.until)
    assert all(a[1] == b[0] for a, b in zip(view.cells, view.cells[1:], strict=False))
    assert view.earlier is not None
    assert view.later is not None
    before = calendar_view.chosen({"view": name, "date": view.earlier.isoformat()}, 0)
    after = calendar_view.chosen({"view": name, "date": view.later.isoformat()}, 0)
    assert (before.window.until, after.window.from_) == (view.window.from_, view.window.until)


@pytest.mark.parametrize("hour", [0, 1, 12, 23])
def test_where_no_day_is_named_most_of_what_is_shown_lies_ahead(hour: int) -> None:
    now = int(datetime(2027, 1, 31, hour, 59, tzinfo=UTC).timestamp() * 1000)
    for name, most_behind in (("day", 3), ("week", 24)):
        window = calendar_view.chosen({"view": name}, now).window
        assert window.from_ <= now < window.until
        assert now - window.from_ <= most_behind * calendar_view.HOUR_MS


@pytest.mark.parametrize("name", calendar_view.SCALES)
@pytest.mark.parametrize("text", ["1971-01-01", "8999-12-31"])
def test_the_first_and_the_last_view_lead_no_further(name: str, text: str) -> None:
    view = calendar_view.chosen({"view": name, "date": text}, 0)
    for neighbour in (view.earlier, view.later):
        assert neighbour is None or calendar_view.chosen({"view": name, "date": neighbour.isoformat()}, 0)
