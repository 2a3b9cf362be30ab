"""Naive readings of what the product keeps cleverly, to compare it with."""

from adapters.calendars import Calendars
from adapters.postgres.reader import Tail
from domain.calendar import FOREVER
from facts import Facts

Stretches = dict[str, list[tuple[int, int | None]]]


def feed(calendars: Calendars, given: Facts, position: int) -> int:
    """Let the calendars read the log from a position to its end; return that."""
    tail = Tail(position)
    with given.connections.connection() as connection:
        while True:
            batch = tail.read(connection)
            if batch:
                calendars.consume(batch)
            elif not tail.hole_age:
                return tail.position


def busy_in_database(given: Facts, pool_id: str) -> Stretches:
    """When each atom is booked, by `device_bookings`; bookings that touch are one stretch."""
    sql = """
    SELECT device_id, lower(r), upper(r) FROM (
        SELECT device_id, unnest(range_agg(during)) AS r FROM device_bookings WHERE pool_id = %s GROUP BY device_id
    ) AS merged ORDER BY 1, 2
    """
    busy: Stretches = {}
    for device_id, start, until in given.rows(sql, pool_id):
        busy.setdefault(device_id, []).append((start, until))
    return busy


def busy_in_calendar(calendars: Calendars, pool_id: str) -> Stretches:
    """The same by the calendar's masks."""
    busy: Stretches = {}
    with calendars.locked(pool_id) as of:
        for entry in of.entries.values():
            line = entry.timeline
            ends = [*line.starts[1:], FOREVER]
            for start, end, mask in zip(line.starts, ends, line.busy, strict=True):
                for atom in entry.atoms(mask):
                    stretches = busy.setdefault(atom, [])
                    until = None if end == FOREVER else end
                    if stretches and stretches[-1][1] == start:
                        stretches[-1] = (stretches[-1][0], until)
                    else:
                        stretches.append((start, until))
    return dict(sorted(busy.items()))


def used_in_calendar(calendars: Calendars, pool_id: str, scalar: str) -> dict[str, list[tuple[int, int]]]:
    """By node: from which instant on so much of a scalar is used."""
    with calendars.locked(pool_id) as of:
        lines = {id: entry.timeline for id, entry in of.entries.items()}
        return {id: list(zip(line.starts, line.used[scalar], strict=True)) for id, line in lines.items()}
