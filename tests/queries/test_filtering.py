"""A filter in SQL says of a row of the catalog what the exact matcher says, or that it cannot tell."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from domain import catalog
from domain.policy import filters, matching
from domain.policy.filters import Filter
from queries import filtering

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "domain" / "iam-filter-vectors.jsonl").read_text("utf-8").split("\n")
    if line
]


def told(connection: psycopg.Connection, filter: Filter, row: dict[str, Any], parent: str | None = None) -> bool | None:
    """What PostgreSQL says of a row; its parent is the column or, as attributes, anything."""
    condition = filtering.compiled(filter)
    attributes = Jsonb({name: value for name, value in row.items() if name != "id"})
    params = {**condition.params, "id": row.get("id", ""), "parent": parent, "attributes": attributes}
    sql = "SELECT " + condition.sql + " FROM (SELECT %(id)s::text, %(parent)s::text, %(attributes)s::jsonb)"
    found = connection.execute(sql + " AS thing (id, parent_id, attributes)", params).fetchone()
    assert found is not None
    return found[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_postgresql_says_of_every_vector_what_the_contract_says(
    connection: psycopg.Connection, vector: dict[str, Any]
) -> None:
    expected = vector["expect"]
    by_row = (
        vector["filter"]["kind"] == "date" and isinstance(vector["row"].get("f"), str) and "T" in vector["row"]["f"]
    )
    assert told(connection, matching.parse(vector["filter"]), vector["row"]) is (None if by_row else expected)


def test_the_parent_is_a_column_of_its_own(connection: psycopg.Connection) -> None:
    of_pool = filters.And((filters.Equals("parentType", (catalog.POOL,)), filters.Equals("parentId", ("p",))))
    assert told(connection, of_pool, {}, parent="p") is True
    assert told(connection, of_pool, {}, parent="q") is False
    assert told(connection, of_pool, {}) is False
    assert told(connection, filters.Not(of_pool), {}) is True
    assert told(connection, filters.Exists("parentId"), {}, parent="p") is True
    assert told(connection, filters.Exists("parentType"), {}) is False


@pytest.mark.parametrize(
    ("filter", "value"),
    [
        (filters.Equals("f", ("k",), ignore_case=True), "\u212a"),
        (filters.Like("f", "ας", ignore_case=True), "ΑΣ"),
        (filters.Not(filters.Equals("f", ("k",), ignore_case=True)), "é"),
        (filters.Date("f", "before", "2026-06-01T00:00:00Z"), "2026-05-31T23:59:59+23:59"),
        (filters.Compare("f", "lt", 1.0), 10**400),
        (filters.Type("f", "number"), 1e-308),
        (filters.Contains("f", 2.0**53), [2**53 + 1]),
    ],
)
def test_what_sql_cannot_tell_it_does_not_say(connection: psycopg.Connection, filter: Filter, value: Any) -> None:
    assert told(connection, filter, {"f": value}) is None
    assert told(connection, filters.Or((filter, filters.Exists("f"))), {"f": value}) is True
    assert told(connection, filters.And((filter, filters.Exists("g"))), {"f": value}) is False


ADDRESSES = [
    *("10.0.0.1", "10.0.0.01", "10.0.0.0/8", "256.0.0.1", "1.2.3", "1.2.3.4.5", "10.0.0.1\n", "::ffff:10.0.0.1", "::1"),
    *(
        "::",
        "1::",
        ":::",
        "1:::2",
        "1::2::3",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        ":1:2:3:4:5:6:7",
    ),
    *(
        "::2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "1:2:3:4::6:7:8",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:1.2.3.4",
        "1:2:3:4:5:6:7:1.2.3.4",
    ),
    *("1:2:3:4:5::1.2.3.4", "1:2:3:4:5:6::1.2.3.4", "1::2:3:4:5:1.2.3.4", "fe80::1%eth0", "::1.2.3.4", "1.2.3.4::"),
    *("::1.2.3.4:1", "ABCD:EF01::", "12345::", "::1:", "[::1]", "::ffff:0a00:0001", "::ffff:300.1.1.1", " ::1", "::g"),
]
NETWORKS = ["10.9.9.9/8", "10.0.0.1", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "::ffff:0:0/95", "1::/16", "::1"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_and_networks_are_told_in_full(connection: psycopg.Connection, address: str) -> None:
    for asked in (filters.Type("f", "ip"), *(filters.Ip("f", net) for net in NETWORKS)):
        assert told(connection, asked, {"f": address}) is matching.matches(asked, {"f": address}), asked


TEXTS = st.sampled_from(
    [
        *(
            "",
            "a",
            "A",
            "ab",
            "a%b",
            "_",
            "a*",
            "?",
            "\\",
            "a\\%",
            "a\nb",
            "é",
            "İ",
            "ΑΣ",
            "K",
            "😀",
            "1",
            "true",
            "x" * 300,
        ),
        *ADDRESSES,
    ]
)
NUMBERS = st.one_of(
    st.sampled_from([0, -0.0, 1, 1.5, -2, 2**53, 2**53 + 1, 1e21, 5e-324, 1e300, 0.1, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
)
ANY = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
VALUES = st.one_of(ANY, st.lists(ANY, max_size=3), st.just([["a"]]), st.just({"a": 1}))
ROWS = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "ab", "a%b", "é", "\\"])},
    optional={"f": VALUES, "parentId": VALUES, "parentType": VALUES},
)
FIELDS = st.sampled_from(["f", "f", "id", "parentId", "parentType", "g", "\0"])
DOUBLES = NUMBERS.filter(lambda number: number < 10**308).map(float)
SCALARS = st.one_of(TEXTS, st.sampled_from(["\0", "\ud800"]), DOUBLES, st.booleans())
ATOMS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(filters.Exists, FIELDS),
    st.builds(filters.Type, FIELDS, st.sampled_from(["string", "number", "boolean", "ip"])),
    st.builds(filters.Equals, FIELDS, st.lists(SCALARS, max_size=3).map(tuple), st.booleans()),
    st.builds(
        filters.Compare,
        FIELDS,
        st.sampled_from(["lt", "le", "gt", "ge"]),
        DOUBLES,
    ),
    st.builds(
        filters.Like,
        FIELDS,
        st.lists(st.one_of(TEXTS, st.sampled_from(["*", "?", "\\", "\\*", "\0"])), max_size=3).map("".join),
        st.booleans(),
    ),
    st.builds(filters.Date, FIELDS, st.sampled_from(["before", "after"]), st.just("2026-01-01T00:00:00Z")),
    st.builds(
        filters.Ip,
        FIELDS,
        st.sampled_from(NETWORKS),
    ),
    st.builds(filters.Contains, FIELDS, SCALARS),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    ATOMS,
    lambda within: st.one_of(
        st.builds(filters.Not, within),
        st.builds(filters.And, st.lists(within, max_size=3).map(tuple)),
        st.builds(filters.Or, st.lists(within, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILTERS, ROWS)
def test_sql_says_what_the_matcher_says_or_nothing(
    connection: psycopg.Connection, filter: Filter, row: dict[str, Any]
) -> None:
    stored = json.loads(json.dumps(row))
    assert told(connection, filter, row) in (matching.matches(filter, stored), None)
