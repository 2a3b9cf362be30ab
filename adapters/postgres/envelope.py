"""What an append becomes in the log: each event with its id, its part of the append, and those whose event it is."""

from collections.abc import Callable, Sequence
from typing import Any

from domain import registry
from domain.event import Append, Part, Recorded


def seal(append: Append, after: Sequence[Any], new_id: Callable[[str], str]) -> list[Recorded]:
    """The append's events in order; `after` is the state of each changed stream once its events have happened."""
    count = sum(len(change.events) for change in append.changes)
    ids = [new_id("evt") for _ in range(count)]
    recorded: list[Recorded] = []
    for change, state in zip(append.changes, after, strict=True):
        meta = change.meta or append.meta
        tenants = tuple(sorted({*registry.kind(change.stream).tenants(state), *_acted(meta.actor)}))
        for version, event in enumerate(change.events, change.expected + 1):
            index = len(recorded)
            part = Part(ids[0], index, count)
            recorded.append(Recorded(change.stream, version, event, meta, ids[index], part=part, tenants=tenants))
    return recorded


def _acted(actor: str) -> tuple[str, ...]:
    """The tenant that acted, if one did."""
    return (actor.removeprefix("identity:").partition("/")[0],) if actor.startswith("identity:") else ()
