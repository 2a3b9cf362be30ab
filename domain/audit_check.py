"""Holds the log against its evidence, event by event, and says of each fault where it is and what is wrong.

Everything comes in order and is looked at once, so that a log of any length takes the same memory. Where one thing is
wrong, what follows is still held against what was recorded: a fault does not hide the next, nor make others up.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from msgspec import Struct

from domain import audit_event, chain, leaf, tamper
from domain.event import Recorded

T = TypeVar("T")
Tell = Callable[[str], None]

KEPT: Final = 100
"""So many faults of a kind are kept to be explained by one another."""


class Logged(Struct, frozen=True):
    """An event as the log has it: its leaf and that one's hash, the stored bytes, and the event; None: unreadable."""

    leaf: leaf.Leaf
    hash: bytes
    state: bytes
    recorded: Recorded | None


class Filed(Struct, frozen=True):
    """A leaf as it was recorded. Without a hash it is lost, and any event passes; so is a position that is None."""

    index: int
    position: int | None
    hash: bytes | None


class Ahead(Generic[T]):
    """What comes, one at a time, with a look at the next."""

    def __init__(self, coming: Iterable[T]) -> None:
        self._coming = iter(coming)
        self.next = next(self._coming, None)

    def take(self) -> T:
        taken, self.next = self.next, next(self._coming, None)
        assert taken is not None
        return taken


class Check:
    """One reading of a log beside its evidence; `tell` hears of every fault."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._chains = Chains(tell)
        self._gone: list[Filed] = []
        self._strange: list[Logged] = []
        self.events = 0
        self.links = 0

    def compare(self, log: Iterable[Logged], filed: Iterable[Filed], links: Iterable[chain.Link]) -> Iterator[bytes]:
        """Go through all three, each in order of position; gives the leaves' hashes as recorded, for the tree."""
        leaves, chained = Ahead(filed), Ahead(links)
        for event in log:
            self.events += 1
            while (expected := leaves.next) is not None and _before(expected, event):
                yield from self._missing(leaves.take())
            index = None
            if expected is not None and _meant(expected, event):
                index = expected.index
                self._match(leaves.take(), event)
                yield expected.hash or event.hash
            else:
                self._slipped_in(event)
            self._chain(event, index, chained)
        while leaves.next is not None:
            yield from self._missing(leaves.take())
        while chained.next is not None:
            self._chains.orphan(chained.take())

    @property
    def lacks(self) -> bool:
        """Whether there is something to explain."""
        return bool(self._gone)

    def explain(self, later: Iterable[Logged]) -> None:
        """Name events that stand elsewhere than they were recorded; they may be among those that came `later`."""
        for event in (*self._strange, *islice(later, KEPT)):
            for was in self._gone:
                moved = was.position is not None and was.position != event.leaf.position
                if moved and was.hash == tamper.moved(event.leaf, was.position or 0):
                    self._tell(f"{_named(event)}: this is the event that was recorded at position {was.position}")

    def _chain(self, event: Logged, index: int | None, chained: Ahead[chain.Link]) -> None:
        while chained.next is not None and chained.next.position < event.leaf.position:
            self._chains.orphan(chained.take())
        links = {}
        while chained.next is not None and chained.next.position == event.leaf.position:
            link = chained.take()
            links[link.tenant_id] = link
        self.links += len(links)
        self._chains.follow(event, index, links)

    def _match(self, expected: Filed, event: Logged) -> None:
        at = event.leaf.position
        if expected.hash is not None and expected.hash != event.hash:
            what = None
            if len(self._strange) < KEPT:
                what = tamper.told(event.leaf, event.state, expected.hash)
                self._strange.append(event)
                self._gone.append(expected)
            self._tell(f"{_named(event)}: the event is not the one recorded as leaf {expected.index}{_colon(what)}")
        elif expected.position is not None and expected.position != at:
            self._tell(f"leaf {expected.index}: its position reads {expected.position}, its event stands at {at}")

    def _missing(self, expected: Filed) -> Iterator[bytes]:
        at = "" if expected.position is None else f"position {expected.position}: "
        self._tell(f"{at}the event recorded as leaf {expected.index} is missing")
        if expected.hash is not None:
            if len(self._gone) < KEPT:
                self._gone.append(expected)
            yield expected.hash

    def _slipped_in(self, event: Logged) -> None:
        self._tell(f"{_named(event)}: the event was slipped in, no leaf records it")
        if len(self._strange) < KEPT:
            self._strange.append(event)


class Chains:
    """Each tenant's chain, held against the events that it should be made of."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._heads: dict[str, list[chain.Head]] = {}

    def follow(self, event: Logged, index: int | None, links: dict[str, chain.Link]) -> None:
        """The links that stand at an event's position, one for each tenant whose event it is."""
        if event.recorded is None:
            for link in links.values():
                self._went_on(link)
            return
        for tenant in event.recorded.tenants:
            self._one(event, event.recorded, tenant, index, links.pop(tenant, None))
        for link in links.values():
            self._tell(f"{_of(link)}: it stands at position {link.position}, whose event is not of {link.tenant_id}")

    def orphan(self, link: chain.Link) -> None:
        """One at whose position there is no event."""
        self._tell(f"{_of(link)}: there is no event at its position {link.position}")
        self._went_on(link)

    def _one(self, event: Logged, recorded: Recorded, tenant: str, index: int | None, link: chain.Link | None) -> None:
        heads = self._heads.get(tenant) or [chain.Head()]
        said = audit_event.of(recorded, event.leaf.sha256, tenant)
        if link is None:
            self._unlinked(event, tenant, index, heads, chain.link(said, heads[0]))
            return
        found = link.hash.hex()
        for head in heads:
            after = chain.link(said, head)
            if after.hash == found:
                self._heads[tenant] = [after]
                if link.sequence != after.sequence:
                    self._tell(f"{_of(link)}: by its hash it is sequence {after.sequence}")
                break
        else:
            self._tell(f"{_of(link)} (position {link.position}): {_why(link, heads)}")
            self._heads[tenant] = [chain.Head(link.sequence, found), after]
        if index is not None and link.leaf != index:
            self._tell(f"{_of(link)}: its leaf reads {link.leaf}, its event is leaf {index}")

    def _unlinked(
        self, event: Logged, tenant: str, index: int | None, heads: list[chain.Head], after: chain.Head
    ) -> None:
        """What follows may go on from it, or from the one before, if it never was in the chain."""
        if index is not None:
            self._tell(f"{_named(event)}: the chain of {tenant} has no link for it (sequence {after.sequence})")
        self._heads[tenant] = [after, *heads] if index is not None else [*heads, after]

    def _went_on(self, link: chain.Link) -> None:
        self._heads[link.tenant_id] = [chain.Head(link.sequence, link.hash.hex())]


def _before(expected: Filed, event: Logged) -> bool:
    """Whether the event that the leaf records should have come already."""
    if expected.hash in (None, event.hash) or expected.position is None:
        return False
    return expected.position < event.leaf.position


def _meant(expected: Filed, event: Logged) -> bool:
    """Whether the leaf is of this event, changed or not."""
    return expected.hash in (None, event.hash) or expected.position in (None, event.leaf.position)


def _why(link: chain.Link, heads: list[chain.Head]) -> str:
    if link.sequence not in {head.sequence + 1 for head in heads}:
        return f"sequence-gap, after sequence {heads[0].sequence}"
    return "hash-mismatch, its hash is not that of its event after the one before"


def _of(link: chain.Link) -> str:
    return f"chain of {link.tenant_id}, sequence {link.sequence}"


def _named(event: Logged) -> str:
    one = event.leaf
    return f"position {one.position} ({one.type} of {one.stream} version {one.version})"


def _colon(what: str | None) -> str:
    return "" if what is None else f": {what}"
