"""The end of what an instance wrote to its console (domain.md §6). It is kept beside the log, and has no past."""

from typing import LiteralString

from msgspec import Struct

from domain import errors
from domain.operation import Answer, Operation, Reading
from queries.reading import Reader

_CONSOLE: LiteralString = """
SELECT total_bytes, tail, written_at FROM instance_consoles WHERE instance_id = %s AND tenant_id = %s
"""


class Get(Reading, frozen=True, kw_only=True):
    id: str


class View(Struct, frozen=True, kw_only=True, rename="camel"):
    """`totalBytes` is all that it ever wrote, `tail` the end of it; `writtenAt` (epoch ms) when its node said so."""

    instance_id: str
    total_bytes: int
    tail: str
    written_at: int | None


def get(query: Get, read: Reader) -> Answer:
    """Of an instance that wrote nothing, or whose node has not sent it yet, the tail is empty."""
    loaded = read.load(query.id)
    asked = (query.id, read.session.tenant_id)
    row = read.connection.execute(_CONSOLE, asked, prepare=True).fetchone() or (0, "", None)
    total_bytes, tail, written_at = row
    shown = View(instance_id=query.id, total_bytes=total_bytes, tail=tail, written_at=written_at)
    return Answer(body=shown, position=loaded.position)


OPERATIONS = (
    Operation(
        name="instances.console",
        verb="GET",
        path="/v1/instances/{id}/console",
        request=Get,
        response=View,
        on=("compute-instance/{id}",),
        handle=get,
        summary="Show the end of what an instance wrote to its console",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind),
    ),
)
