"""What the log holds: events, and the envelope that says who, when and under which decision."""

from msgspec import Struct


class Event(Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    """Something that happened. Subclasses give an explicit versioned tag: it is the stored name for ever."""


class Meta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who brought an append about.

    `admission` names the decision it acts on (domain.md §9); `actor` is `identity:<tenant>/<id>`, `agent:<node>`,
    `controller:<job>`, or `join-token:<id>` of a machine that joins; `causation` is the event,
    `correlation` the request that led here.
    """

    actor: str
    admission: str | None = None
    causation: str | None = None
    correlation: str | None = None


class Part(Struct, frozen=True):
    """Which append an event belongs to (the id of its first event), its place there, and how many there are."""

    append: str
    index: int
    count: int


class Recorded(Struct, frozen=True):
    """An event as the log has it. `recorded_at` is the database's clock in epoch ms: it labels, position orders.

    `tenants` are those whose event it is: of the thing it happened to, and of who acted on it (api.md §6).
    `stored_as` is the name that its row has, which stays when the event comes in a newer shape.
    """

    stream: str
    version: int
    event: Event
    meta: Meta
    event_id: str
    position: int = 0
    recorded_at: int = 0
    part: Part = Part("", 0, 1)
    tenants: tuple[str, ...] = ()
    stored_as: str = ""


class Change(Struct, frozen=True):
    """New events for one stream; `expected` is the version the decision saw (0: the stream is new).

    `meta` says who brought this change about where several did, each a part of one append.
    """

    stream: str
    expected: int
    events: tuple[Event, ...]
    meta: Meta | None = None


class Seen(Struct, frozen=True):
    """A node that a decision counted on and did not change: the append races with whatever came after `version`."""

    stream: str
    version: int


class Fence(Struct, frozen=True):
    """Ownership under which a controller writes: refused once a newer epoch exists (domain.md §5)."""

    lease: str
    epoch: int


class Append(Struct, frozen=True):
    """One transaction of the log: everything in it is recorded, or nothing."""

    changes: tuple[Change, ...]
    meta: Meta
    fence: Fence | None = None
    seen: tuple[Seen, ...] = ()


def tag(event: Event | type[Event]) -> str:
    name = event.__struct_config__.tag
    assert isinstance(name, str), "every stored event has an explicit tag"
    return name
