"""The work budget: no document, however hostile, may hold up a decision (iam.md §4, "Work budget")."""

BUDGET = 4_000_000
"""Units per evaluation; about one per character compared or step taken."""


class Exhausted(Exception):
    """The evaluation has used up its budget: it must deny, whatever it has seen so far."""


class Meter:
    """Counts one evaluation's work down to zero."""

    __slots__ = ("left",)

    def __init__(self, left: int = BUDGET) -> None:
        self.left = left

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise Exhausted
