"""Row versions: what a list knew when (architecture.md §3).

A version holds what lists filter by, over the positions `[from_position, to_position)`; what is shown of a thing is
folded from its stream at the position that is asked for. So a version is written when one of those facts changes, not
at each event, and a view that gains a field shows it for the past as well.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from projections.projection import Projection, Write

SUFFIX = "_history"


def tables_of(name: str, facets: Sequence[str]) -> str:
    """The table of the versions of `name`; facets are columns with their types, as `state_name text`."""
    columns = "".join(f"    {facet},\n" for facet in facets)
    return f"""
CREATE TABLE {name}{SUFFIX} (
    id text NOT NULL,
    from_position bigint NOT NULL,
    to_position bigint,
{columns}    PRIMARY KEY (id, from_position)
);
CREATE INDEX {name}{SUFFIX}_past ON {name}{SUFFIX} (to_position) WHERE to_position IS NOT NULL;
"""


def names(projection: Projection) -> list[str]:
    """The history tables of a projection."""
    return re.findall(rf"CREATE TABLE (\w+{SUFFIX}) ", projection.tables)


def rows(name: str, facets: Sequence[str], versions: Iterable[Sequence[Any]]) -> Write:
    """Put in versions, each as (id, from, to, *facets)."""
    typed = ["id text", "from_position bigint", "to_position bigint", *facets]
    return insert(f"{name}{SUFFIX}", typed, versions)


def close(name: str, ends: Iterable[tuple[str, int, int]]) -> Write:
    """End open versions, each as (id, from, to)."""
    sql = f"""
    UPDATE {name}{SUFFIX} AS open SET to_position = ended.until
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS ended (id, since, until)
    WHERE open.id = ended.id AND open.from_position = ended.since
    """
    return sql, columns(ends, 3)


def prune(name: str) -> str:
    """Forget the versions that ended after the first and up to the second position."""
    return f"DELETE FROM {name} WHERE to_position > %s AND to_position <= %s"


def insert(table: str, typed: Sequence[str], values: Iterable[Sequence[Any]], on_conflict: str = "") -> Write:
    """One statement for any number of rows; `typed` are the columns with their types."""
    listed = ", ".join(column.split()[0] for column in typed)
    sql = f"INSERT INTO {table} ({listed}) SELECT {', '.join(map(taken, typed))} FROM {given(typed)} {on_conflict}"
    return sql, columns(values, len(typed))


def taken(column: str) -> str:
    """A column of `given` as its table has it."""
    return "::".join(column.split()) if column.endswith("jsonb") else column.split()[0]


def given(typed: Sequence[str]) -> str:
    """Rows that come as columns; jsonb travels as text: an array of it has no form that both sides read alike."""
    listed = ", ".join(column.split()[0] for column in typed)
    arrays = ", ".join(f"%s::{column.split()[1].replace('jsonb', 'text')}[]" for column in typed)
    return f"unnest({arrays}) AS given ({listed})"


def columns(values: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    """Rows turned into columns, as unnest takes them."""
    turned = [list(column) for column in zip(*values, strict=True)]
    return turned or [[] for _ in range(width)]
