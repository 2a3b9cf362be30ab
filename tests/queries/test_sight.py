"""What may be seen: by SQL where it can tell, by the matcher where it cannot, by the decider where there is no plan."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from domain.access import Plan, Resource, Session
from domain.policy import filters
from queries import sight
from queries.sight import Through

NAMES = {"prj_1": "k", "prj_2": "\u212a", "prj_3": "é", "prj_4": "x"}
SESSION = Session("acme", "alice", "user", "s", "user")
LISTED = "SELECT 0::bigint, id, 0::bigint, ''::bytea FROM catalog WHERE tenant_id = %(tenant)s"
OF_K = Plan("conditional", filters.Equals("name", ("k",), ignore_case=True))


class Asker:
    """Plans one thing; what it is asked to decide, it notes and allows for an x."""

    def __init__(self, connection: psycopg.Connection[Any], plan: Plan) -> None:
        self.connection = connection
        self.session = SESSION
        self.planned = plan
        self.asked: list[str] = []

    def plan(self, action: str, type: str) -> Plan:
        assert (action, type) == ("compute:projects:get", "compute-project")
        return self.planned

    def allowed(self, action: str, resources: Sequence[Resource]) -> Sequence[bool]:
        self.asked += sorted(resource.id for resource in resources)
        return [resource.attributes["name"] == "x" for resource in resources]


@pytest.mark.parametrize(
    ("plan", "seen", "asked"),
    [
        (Plan("always"), set(NAMES), []),
        (Plan("never"), set(), []),
        (OF_K, {"prj_1", "prj_2"}, []),
        (Plan("conditional", filters.Not(filters.Equals("name", ("k",), ignore_case=True))), {"prj_3", "prj_4"}, []),
        (Plan("unsupported"), {"prj_4"}, sorted(NAMES)),
    ],
)
def test_what_a_plan_says_is_seen(
    connection: psycopg.Connection[Any], plan: Plan, seen: set[str], asked: list[str]
) -> None:
    for id, name in NAMES.items():
        sql = "INSERT INTO catalog VALUES ('compute-project', %s, 'acme', NULL, %s)"
        connection.execute(sql, (id, Jsonb({"name": name})))
    asker = Asker(connection, plan)
    assert sight.may_get(asker, "compute-project", list(NAMES)) == seen
    assert asker.asked == asked
    sees = sight.of(asker, Through("compute-project"))
    found = connection.execute(sees.over(LISTED), {"tenant": "acme", **sees.params}).fetchall()
    assert sees.seen(asker, found) == (set() if sees.blind else seen)


def test_what_is_the_callers_own_is_seen_without_a_plan(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO catalog VALUES ('compute-project', 'prj_1', 'acme', NULL, '{}')")
    sees = sight.of(Asker(connection, Plan("never")), Through("compute-project", own="%(tenant)s = 'acme'"))
    assert not sees.blind
    found = connection.execute(sees.over(LISTED), {"tenant": "acme", **sees.params}).fetchall()
    assert [row[1] for row in found] == ["prj_1"]
