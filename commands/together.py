"""What many bring about, in one append: and who is heard alone when that is refused."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from commands.ports import Store
from domain import errors
from domain.event import Append, Change, Meta, Seen

TOGETHER: Final = Meta("controller:gateway")
Fault = Exception | None


def append(store: Store, changes: Sequence[Change], seen: Sequence[Seen] = ()) -> Fault:
    """What went wrong, for each to hear whose change it was."""
    if not changes:
        return None
    try:
        store.append(Append(tuple(changes), TOGETHER, seen=tuple(seen)))
    except Exception as fault:
        return fault
    return None


def for_all(fault: Fault) -> bool:
    """Whether this end of the joint append is each one's answer; another may be for what one of them said."""
    return fault is None or isinstance(fault, errors.Unavailable)


@contextmanager
def alone_if_it_fails(store: Store) -> Iterator[None]:
    """Whoever cannot be taken with the others is tried alone, and hears of the fault there: nobody else does."""
    try:
        yield
    except Exception:
        store.now()  # an outage is everybody's answer: then this raises too


def tried(act: Callable[[], None]) -> Fault:
    try:
        act()
    except Exception as fault:
        return fault
    return None
