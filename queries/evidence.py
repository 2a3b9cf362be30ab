"""The log's evidence: signed checkpoints, exports that prove themselves, and their check on the spot (api.md §6)."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from domain import checkpoint, errors, export
from domain.access import Session
from domain.export import Ask
from domain.export_report import Verdict
from domain.operation import Answer, Operation, Reading

AT_ONCE: Final = 1000
"""Events that a check on the spot takes where nothing else is said."""

Scope = Annotated[Literal["tenant", "fleet"], Meta(description="fleet: the whole log, for the platform")]
Sequence = Annotated[int, Meta(ge=1, le=2**53, description="from this sequence of your chain on; default its first")]
Size = Annotated[int, Meta(ge=0, le=2**53, description="scope=fleet: from this leaf on, as a checkpoint of this size")]
Since = Annotated[
    int,
    Meta(ge=0, le=2**53, description="size of a checkpoint that you kept: prove that this log begins with that one"),
]


class Books(Struct, frozen=True):
    """What an operation that `proves` works with, and who asks.

    `sign` gives a checkpoint of now; `write` an export in pieces, the first of which is the header; `check` its
    verdict; `consistency` the root of an earlier size and the proof that it begins a later one; `position` is of a
    leaf; `strays` are positions between two leaves that the log holds and the tree does not.
    """

    session: Session
    vkey: str
    sign: Callable[[], str]
    write: Callable[[Ask, str], Iterator[bytes]]
    check: Callable[[Iterable[bytes]], Verdict]
    consistency: Callable[[int, int], tuple[bytes, list[bytes]]]
    position: Callable[[int], int]
    strays: Callable[[int, int], list[int]]


class Export(Reading, frozen=True, kw_only=True):
    """What to export. Without bounds it is everything up to now."""

    scope: Scope = "tenant"
    from_sequence: Sequence | None = None
    from_size: Size | None = None
    limit: Annotated[int, Meta(ge=1, le=2**53, description="at most so many events; default all")] | None = None
    since: Since | None = None


class Verify(Reading, frozen=True, kw_only=True):
    """What to check, against a checkpoint of now."""

    scope: Scope = "tenant"
    from_sequence: Sequence | None = None
    from_size: Size | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="at most so many events")] = AT_ONCE


class Checkpoint(Reading, frozen=True, kw_only=True):
    """`since` also asks for the proof that an earlier one is the beginning of this."""

    since: Since | None = None


class Consistency(Struct, frozen=True, kw_only=True, rename="camel"):
    """That the tree of `size` leaves is the beginning: its root and the proof, hashes in hex (RFC 6962 §2.1.2)."""

    size: int
    root: str
    proof: tuple[str, ...]


class Signed(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A checkpoint: `note` is what to keep (a C2SP signed note), `vkey` verifies it, the rest is what it says.

    `position` is that of the last event it covers.
    """

    note: str
    vkey: str
    origin: str
    size: int
    root: str
    position: int
    since: Consistency | None = None


class ChainHead(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a chain stands."""

    sequence: int
    hash: str


class Problem(Struct, frozen=True, kw_only=True, rename="camel"):
    """`where` is the event or leaf, `field` what of it is wrong."""

    where: str
    field: str
    detail: str


class Verified(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was checked: `checked` events from `first` on, against a tree of `size` leaves.

    `valid` says that there is no problem; `problems` names the first hundred of `problem_count`. `head` is where the
    chain stands behind them (of a tenant), `next` where to go on.
    """

    valid: bool
    first: int
    checked: int
    size: int
    root: str
    problems: tuple[Problem, ...]
    problem_count: int
    head: ChainHead | None = None
    next: int | None = None


def export_(query: Export, books: Books) -> Answer:
    note = books.sign()
    pieces = books.write(_ask(query, books, query.limit, query.since), note)
    header = next(pieces)
    size = checkpoint.parse(note).size
    return Answer(body=itertools.chain([header], pieces), position=books.position(size - 1) if size else 0)


def verify(query: Verify, books: Books) -> Answer:
    try:
        return _verified(query, books)
    except errors.EvidenceUnsound as fault:
        first = (query.from_sequence or 1) if query.scope == "tenant" else (query.from_size or 0)
        problem = Problem(where="evidence", field="", detail=fault.detail)
        return Answer(
            body=Verified(valid=False, first=first, checked=0, size=0, root="", problems=(problem,), problem_count=1)
        )


def _verified(query: Verify, books: Books) -> Answer:
    note = books.sign()
    lines = (line for piece in books.write(_ask(query, books, query.limit), note) for line in piece.splitlines(True))
    verdict = books.check(lines)
    problems = [Problem(where=one.where, field=one.field, detail=one.says) for one in verdict.faults.told]
    count = verdict.faults.count
    if query.scope == "fleet" and verdict.checked:
        strays = books.strays(verdict.first, verdict.first + verdict.checked - 1)
        count += len(strays)
        problems += [_stray(position) for position in strays[:100]]
    size = verdict.size
    head = verdict.head
    body = Verified(
        valid=count == 0,
        first=verdict.first,
        checked=verdict.checked,
        size=size,
        root=verdict.root,
        problems=tuple(problems),
        problem_count=count,
        head=ChainHead(sequence=head.sequence, hash=head.hash) if head else None,
        next=verdict.next,
    )
    return Answer(body=body, position=books.position(size - 1) if size else 0)


def checkpoint_(query: Checkpoint, books: Books) -> Answer:
    note = books.sign()
    said = checkpoint.parse(note)
    since = None
    if query.since is not None:
        if query.since > said.size:
            raise errors.Invalid("since", f"is later than this checkpoint, which has {said.size} leaves")
        root, proof = books.consistency(query.since, said.size)
        since = Consistency(size=query.since, root=root.hex(), proof=tuple(step.hex() for step in proof))
    position = books.position(said.size - 1) if said.size else 0
    body = Signed(
        note=note,
        vkey=books.vkey,
        origin=said.origin,
        size=said.size,
        root=said.root.hex(),
        position=position,
        since=since,
    )
    return Answer(body=body, position=position)


def _ask(query: Export | Verify, books: Books, limit: int | None, since: int | None = None) -> Ask:
    """What is asked for, of the caller's own tenant unless of the fleet."""
    if query.scope == "fleet":
        if query.from_sequence is not None:
            raise errors.Invalid("fromSequence", "is of a tenant's chain; the fleet's leaves go by fromSize")
        return Ask(tenant_id=None, first=query.from_size, limit=limit, since=since)
    if query.from_size is not None:
        raise errors.Invalid("fromSize", "is of the fleet's leaves; a tenant's chain goes by fromSequence")
    return Ask(tenant_id=books.session.tenant_id, first=query.from_sequence, limit=limit, since=since)


def _stray(position: int) -> Problem:
    detail = "the log holds an event here that the tree does not: it came in later, or the tree has lost it"
    return Problem(where=f"position {position}", field="position", detail=detail)


OPERATIONS = (
    Operation(
        name="audit.export",
        verb="GET",
        path="/v1/audit/export",
        request=Export,
        response=export.Header | export.Proof | export.Row | export.End,
        on=("compute-tenant/{acting}",),
        handle=export_,
        summary="Your audit log as JSON Lines that prove themselves: chain, inclusion in the log's tree, checkpoint",
        refusals=(errors.AccessDenied, errors.EvidenceUnsound),
        streaming="lines",
        proves=True,
    ),
    Operation(
        name="audit.verify",
        verb="GET",
        path="/v1/audit/verify",
        request=Verify,
        response=Verified,
        on=("compute-tenant/{acting}",),
        handle=verify,
        summary="Check a stretch of your chain, or of the whole log, against its tree",
        refusals=(errors.AccessDenied,),
        proves=True,
    ),
    Operation(
        name="audit.checkpoint",
        verb="GET",
        path="/v1/audit/checkpoint",
        request=Checkpoint,
        response=Signed,
        on=("compute-tenant/{acting}",),
        handle=checkpoint_,
        summary="A signed checkpoint of the log as it is now, to keep: later exports prove that it still holds",
        refusals=(errors.AccessDenied, errors.EvidenceUnsound),
        proves=True,
    ),
)
