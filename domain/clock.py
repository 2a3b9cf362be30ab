"""When a controller's wall clock stepped, and that deadlines wait until it can be believed again (domain.md §5)."""

from typing import Literal, assert_never

from msgspec import Struct

from domain.event import Event

_PREFIX = "clock:"


class Stepped(Event, frozen=True, tag="clock.stepped.1"):
    """Between two rounds the wall clock went `by_ms` further (or less far) than the monotonic one."""

    lease: str
    by_ms: int
    at: int


class Trusted(Event, frozen=True, tag="clock.trusted.1"):
    """Deadlines go on: the clocks agreed for long enough, or an operator said so."""

    by: Literal["controller", "operator"]
    at: int


Events = Stepped | Trusted


class State(Struct, frozen=True):
    lease: str = ""
    stepped: Stepped | None = None


def evolve(state: State, event: Events) -> State:
    match event:
        case Stepped(lease=lease):
            return State(lease, event)
        case Trusted():
            return State(state.lease)
        case _:
            assert_never(event)


def stream(lease: str) -> str:
    """The stream of the controller that holds this coordination lease."""
    return _PREFIX + lease


class View(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A controller's clock: with `steppedAt` (epoch ms) its deadlines are held."""

    name: str
    version: int
    stepped_at: int | None = None
    stepped_by_ms: int | None = None


def view(id: str, state: State, version: int) -> View:
    return View(
        name=id.removeprefix(_PREFIX),
        version=version,
        stepped_at=state.stepped.at if state.stepped else None,
        stepped_by_ms=state.stepped.by_ms if state.stepped else None,
    )
