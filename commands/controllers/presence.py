"""Since when a controller has been there without a gap: what lapses meanwhile lapsed under its eyes (domain.md §5)."""

from msgspec import Struct


class Round(Struct, frozen=True):
    """A controller's latest round: its epoch, begin and end in s of its monotonic clock, the database's clock in ms.

    `back_at` is when it came back, in ms of the database's clock.
    """

    epoch: int
    began_s: float
    ended_s: float
    now: int
    back_at: int


def begun(last: Round | None, epoch: int, began_s: float, now: int, gap_s: float) -> Round:
    """The round that begins now; one that follows a gap, a takeover or a jump of the database's clock is a return."""
    back_at = now if last is None or _away(last, epoch, began_s, now, gap_s) else last.back_at
    return Round(epoch, began_s, began_s, now, back_at)


def _away(last: Round, epoch: int, began_s: float, now: int, gap_s: float) -> bool:
    jumped_s = (now - last.now) / 1000 - (began_s - last.began_s)
    return epoch != last.epoch or began_s - last.ended_s > gap_s or jumped_s > gap_s
