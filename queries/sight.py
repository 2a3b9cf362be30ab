"""Which rows of a list the caller may see: those whose `get` is planned to be allowed (iam.md §19).

The plan becomes a condition of the list's own SQL, so that its pages are full and no row is decided by itself. Rows
that SQL cannot tell are matched one by one; where there is no plan, the decider is asked of each.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString, Protocol

from msgspec import Struct

from domain import access, catalog
from domain.access import Plan, Resource, Session
from queries import filtering

if TYPE_CHECKING:
    from psycopg import Connection


class Asker(Protocol):
    """Who asks, and where decisions come from."""

    @property
    def connection(self) -> "Connection[Any]": ...

    @property
    def session(self) -> Session: ...

    def plan(self, action: str, type: str) -> Plan: ...

    def allowed(self, action: str, resources: Sequence[Resource]) -> Sequence[bool]: ...


class Through(Struct, frozen=True):
    """Rows that whoever may `get` a thing of `type` sees: the thing that they are, or that they belong to.

    `thing` is its id, an SQL expression on `listed.id` or on what `joined` joins; `own` says which rows the caller sees
    without it. Both may use the list's own parameters.
    """

    type: str
    thing: LiteralString = "listed.id"
    joined: LiteralString = ""
    own: LiteralString = "false"


class Sight(Struct, frozen=True):
    """What a list shows of its rows: `blind` shows none."""

    of: Through | None
    plan: Plan
    condition: filtering.Condition

    @property
    def blind(self) -> bool:
        return self.plan.kind == "never" and self.of is not None and self.of.own == "false"

    def over(self, rows: LiteralString) -> LiteralString:
        """Of rows of place, id, version and body those that may be seen; null is undecided, then its thing matters."""
        listed: LiteralString = "(" + rows + ") AS listed (at, id, version, body)"
        if self.of is None or self.plan.kind == "always":
            return "SELECT listed.*, true, ''::text FROM " + listed + " WHERE true"
        return (
            "SELECT listed.*, sight.seen, thing.id FROM " + listed + " " + self.of.joined + " "
            "LEFT JOIN catalog AS thing ON thing.type = %(_type)s AND thing.id = " + self.of.thing + " "
            "CROSS JOIN LATERAL (SELECT " + self.of.own + " OR CASE WHEN thing.id IS NULL THEN false"
            " ELSE " + self.condition.sql + " END AS seen) AS sight WHERE sight.seen IS NOT FALSE"
        )  # fmt: skip

    @property
    def params(self) -> dict[str, Any]:
        return {**self.condition.params, "_type": self.of.type if self.of else None}

    def seen(self, asker: Asker, found: Sequence[tuple[Any, ...]]) -> frozenset[str]:
        """Which of the rows found, by their ids, may be seen."""
        undecided = {row[1]: row[5] for row in found if row[4] is None}
        seen = frozenset(row[1] for row in found if row[4])
        if not undecided or self.of is None:
            return seen
        things = _decided(asker, self.of.type, self.plan, list(set(undecided.values())))
        return seen | {id for id, thing in undecided.items() if thing in things}


EVERYTHING = Sight(None, Plan("always"), filtering.ALWAYS)


def of(asker: Asker, through: Through) -> Sight:
    plan = asker.plan(catalog.GET[through.type], through.type)
    return Sight(through, plan, _condition(plan))


def may_get(asker: Asker, type: str, ids: Sequence[str]) -> frozenset[str]:
    """Which of these things of one type, all within the caller's view, the caller may `get`."""
    plan = asker.plan(catalog.GET[type], type)
    if not ids or plan.kind in ("always", "never"):
        return frozenset(ids if plan.kind == "always" else ())
    condition = _condition(plan)
    sql: LiteralString = "SELECT thing.id, sight.seen FROM catalog AS thing CROSS JOIN LATERAL (SELECT "
    sql += condition.sql + " AS seen) AS sight WHERE thing.type = %(_type)s AND thing.id = ANY(%(_ids)s)"
    params = {**condition.params, "_type": type, "_ids": list(ids)}
    found = asker.connection.execute(sql, params, prepare=True).fetchall()
    undecided = [id for id, seen in found if seen is None]
    return frozenset(id for id, seen in found if seen) | _decided(asker, type, plan, undecided)


def _condition(plan: Plan) -> filtering.Condition:
    match plan.kind:
        case "conditional" if plan.filter is not None:
            return filtering.compiled(plan.filter)
        case "unsupported":
            return filtering.UNTOLD
        case kind:
            return filtering.ALWAYS if kind == "always" else filtering.NEVER


def _decided(asker: Asker, type: str, plan: Plan, ids: Sequence[str]) -> frozenset[str]:
    if not ids:
        return frozenset()
    sql = "SELECT id, parent_id, attributes FROM catalog WHERE type = %s AND id = ANY(%s)"
    tenant_id = asker.session.tenant_id
    resources = [
        Resource(type, id, tenant_id, attributes, catalog.POOL if parent else None, parent)
        for id, parent, attributes in asker.connection.execute(sql, (type, list(ids)), prepare=True).fetchall()
    ]
    verdicts = access.may(plan, resources, partial(asker.allowed, catalog.GET[type]))
    return frozenset(resource.id for resource, seen in zip(resources, verdicts, strict=True) if seen)
