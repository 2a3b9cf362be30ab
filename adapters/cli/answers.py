"""What a server's JSON must be, before somebody reads it: another program may listen there, or another version."""

import json
from typing import Any, NamedTuple

from adapters.cli import tables, troubles


class Told(dict[str, Any]):
    """An object of an answer; a member that it lacks is the server's failure."""

    def __missing__(self, name: str) -> Any:
        raise troubles.Failed(f"the answer has no {tables.printable(name)!r}: is this Better Compute, of this version?")


class Page(NamedTuple):
    """Rows of a list, and where the next page begins."""

    rows: list[Told]
    cursor: str | None


def read(content: bytes | str) -> Any:
    """Raises ValueError or RecursionError for what is no JSON."""
    return json.loads(content, object_hook=Told)


def thing(body: Any) -> Told:
    if not isinstance(body, Told):
        raise troubles.Failed("the answer is no JSON object: is this Better Compute?")
    return body


def page(body: Any) -> Page:
    rows = body.get("items") if isinstance(body, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, Told) for row in rows):
        raise troubles.Failed("the answer is no page of a list: is this Better Compute?")
    return Page(rows, body.get("nextCursor"))
