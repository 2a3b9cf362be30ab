"""The gap that a pool keeps between bookings of a device (domain.md §2, `cleaningSeconds`)."""

from collections.abc import Sequence

from projections.projection import Phase, Statement


def keeps_gap(
    stream: str, pool_id: str, window: tuple[int, int], allocations: Sequence[str], *, anew: bool = True
) -> Statement:
    """Refuse an append after which another booking of an atom of these allocations lies nearer than the gap.

    `window` (epoch ms) is what the append books: the whole of a booking, or where it is not `anew` what is added to its
    end, which changes nothing for whoever was there before it. Maintenance needs no cleaning. Most pools have no gap,
    and then no booking is looked at.
    """
    sql = """
    SELECT refuse('CLEANING', jsonb_build_object('seconds', gate.cleaning_ms / 1000))
    FROM pool_gates AS gate
    CROSS JOIN LATERAL (
        SELECT 1 FROM device_bookings AS mine JOIN device_bookings AS other ON other.device_id = mine.device_id
        WHERE mine.allocation_id = ANY(%s) AND other.allocation_id <> mine.allocation_id
          AND other.reservation_id IS NOT NULL
          AND other.during && int8range(%s - gate.cleaning_ms * %s, %s + gate.cleaning_ms)
        LIMIT 1
    ) AS near
    WHERE gate.pool_id = %s AND gate.cleaning_ms > 0
    """
    return Statement(Phase.TAKE_CHECK, stream, sql, (list(allocations), window[0], int(anew), window[1], pool_id), True)
