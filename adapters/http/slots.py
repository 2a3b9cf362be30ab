"""How many long answers a process sends at once, and how many of them to one tenant: none keeps the others out."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from domain import errors


class Slots:
    """`most` at once, `of_one` of a tenant's; `what` names them to whoever is told to come back.

    Used on the event loop alone.
    """

    def __init__(self, what: str, most: int, of_one: int) -> None:
        self._what = what
        self._most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()

    def check(self, tenant_id: str) -> None:
        """Raises Unavailable where there is no place."""
        if self._taken[tenant_id] >= self._of_one:
            raise errors.Unavailable(f"your tenant has {self._of_one} {self._what} open here; end one or try again")
        if self._taken.total() >= self._most:
            raise errors.Unavailable(f"too many {self._what} are open here; try again")

    @contextmanager
    def taken(self, tenant_id: str) -> Iterator[None]:
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            self._taken += Counter()
