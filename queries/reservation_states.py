"""The way of a reservation so far: the states that it came to, and when (domain.md §5)."""

from collections.abc import Sequence

from msgspec import Struct

from domain import errors, registry, reservation
from domain.event import Recorded
from domain.operation import Answer, Known, Operation
from queries.reading import Reader, known


class States(Known, frozen=True, kw_only=True):
    id: str


class Step(Struct, frozen=True, rename="camel"):
    """A state, and since when in epoch ms."""

    state: reservation.Status
    since: int


class Way(Struct, frozen=True):
    """Oldest first; the last is the state that it is in."""

    id: str
    items: tuple[Step, ...]


def states(query: States, read: Reader) -> Answer:
    loaded = known(read, query.id)
    if not loaded.version:
        raise errors.NotFound("reservation", query.id, when=f" as of @{read.as_of}")
    return Answer(
        body=Way(query.id, steps(read.versions(query.id, 0, loaded.version))),
        position=loaded.position if read.as_of is None else read.as_of,
        version=loaded.version,
    )


def steps(history: Sequence[Recorded]) -> tuple[Step, ...]:
    """By the events from the first on: a state does not keep where it has been."""
    state, found = reservation.State(), list[Step]()
    for recorded in history:
        state = registry.fold(recorded.stream, [recorded.event], state)
        if not found or found[-1].state != state.status:
            found.append(Step(state.status, recorded.recorded_at))
    return tuple(found)


OPERATIONS = (
    Operation(
        name="reservations.states",
        verb="GET",
        path="/v1/reservations/{id}/states",
        request=States,
        response=Way,
        on=("compute-reservation/{id}",),
        handle=states,
        summary="Show the states that a reservation had, and when",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
        of_log=True,
    ),
)
