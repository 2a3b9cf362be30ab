"""Between the log's rows and our events: msgspec JSON, explicit stored names, upcasters."""

import functools
import operator
from functools import cache
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from eventsourcing.persistence import Mapper, MapperDeserialisationError, StoredEvent

from domain import registry, upcast
from domain.event import Event, Meta, Part, Recorded, tag


class Stored(msgspec.Struct, frozen=True, rename="camel"):
    """The bytes of one row: the envelope's own facts and the event, which carries its stored name as `type`."""

    id: str
    part: Part
    tenants: tuple[str, ...]
    meta: Meta
    data: msgspec.Raw


T = TypeVar("T")


class Told(msgspec.Struct, Generic[T], frozen=True):
    """Of a row the event alone, which is all that a fold asks for."""

    data: T


_envelope = msgspec.json.Decoder(Stored)
_encoder = msgspec.json.Encoder()
_DECISIONS: Final = "admission."
_UNREAD: Final = Event()
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, LookupError, TypeError, ValueError, AttributeError)
"""What bytes that nobody wrote as an event make of decoding and upcasting."""


class EventMapper(Mapper[str]):
    """The library's mapper for our frozen Structs; a name nobody knows stops with an error, it is never skipped."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        recorded = cast(Recorded, domain_event)
        data = msgspec.Raw(_encoder.encode(recorded.event))
        state = _encoder.encode(Stored(recorded.event_id, recorded.part, recorded.tenants, recorded.meta, data))
        return StoredEvent(recorded.stream, recorded.version, tag(recorded.event), state)

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        return decode(
            str(stored_event.originator_id),
            stored_event.originator_version,
            stored_event.topic,
            stored_event.state,
            getattr(stored_event, "id", 0),
            0,
        )


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(registry.TYPES[name])


def decode(stream: str, version: int, topic: str, state: bytes, position: int, recorded_at: int) -> Recorded:
    """One row of the log as an event of ours.

    Raises MapperDeserialisationError naming topic, stream and version when the row cannot be read.
    """
    try:
        stored = _envelope.decode(state)
        event = _event(topic, stored)
    except _UNREADABLE as fault:
        raise _unreadable(stream, version, topic, position, fault) from fault
    return _recorded(stream, version, topic, position, recorded_at, stored, event)


def told(stream: str, states: bytes) -> list[Event]:
    """The events of rows of one stream, their states joined by commas: a fifth of what `decode` takes.

    Raises msgspec.MsgspecError also where an event has an old shape, which `decode` reads.
    """
    return [row.data for row in _teller(registry.kind(stream).events).decode(b"[" + states + b"]")]


@cache
def _teller(events: tuple[type[Event], ...]) -> msgspec.json.Decoder[list[Told[Event]]]:
    return msgspec.json.Decoder(list[Told[functools.reduce(operator.or_, events)]])  # type: ignore[misc]


def outline(stream: str, version: int, topic: str, state: bytes, position: int, recorded_at: int) -> Recorded:
    """As `decode` for who asks whose event it is and who decided: only a decision is read, other events stay empty.

    It also reads events that only a newer program knows.
    """
    try:
        stored = _envelope.decode(state)
        event = _event(topic, stored) if topic.startswith(_DECISIONS) else _UNREAD
    except _UNREADABLE as fault:
        raise _unreadable(stream, version, topic, position, fault) from fault
    return _recorded(stream, version, topic, position, recorded_at, stored, event)


def _event(topic: str, stored: Stored) -> Event:
    if topic in registry.TYPES:
        return _decoder(topic).decode(stored.data)
    name, data = upcast.upcast(topic, msgspec.json.decode(stored.data))
    return msgspec.convert(data, registry.TYPES[name])


def _unreadable(stream: str, version: int, topic: str, position: int, fault: Exception) -> MapperDeserialisationError:
    known = "" if topic in registry.TYPES else "; this program does not know the name: is it older than the log?"
    return MapperDeserialisationError(
        f"cannot read event {topic} of {stream} version {version}, position {position}: {fault}{known}"
    )


def _recorded(
    stream: str, version: int, topic: str, position: int, recorded_at: int, stored: Stored, event: Event
) -> Recorded:
    return Recorded(
        stream, version, event, stored.meta, stored.id, position, recorded_at, stored.part, stored.tenants, topic
    )
