"""Coordination leases: an operator says that a controller's clock is right again (domain.md §5)."""

from typing import Annotated

from msgspec import Meta

from commands.unit import Outcome, Unit, changed
from domain import clock, errors
from domain.operation import Operation, Request


class Proceed(Request, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]


def proceed(command: Proceed, unit: Unit) -> Outcome:
    """The controller under this lease takes its deadlines up again at once, without waiting for its clocks to agree."""
    stream = clock.stream(command.name)
    loaded = unit.load(stream)
    if loaded.version == 0:
        unit.unseen("lease", command.name, "name")
        raise errors.NotFound("clock step of lease", command.name, "name")
    held = loaded.state.stepped is not None
    return Outcome((changed(stream, loaded, [clock.Trusted("operator", unit.now)] if held else []),))


OPERATIONS = (
    Operation(
        name="leases.proceed",
        verb="POST",
        path="/v1/leases/{name}/proceed",
        request=Proceed,
        response=clock.View,
        on=("compute-fleet/global",),
        handle=proceed,
        view=clock.view,
        summary="Let a controller continue after a clock step",
        refusals=(errors.AccessDenied, errors.NotFound, errors.StaleVersion),
    ),
)
