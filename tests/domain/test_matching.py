"""Filters decide on rows as Better IAM's do: iam-filter-vectors.jsonl is the contract."""

import json
from pathlib import Path
from typing import Any

import pytest

from domain.policy import filters, matching

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "iam-filter-vectors.jsonl").read_text("utf-8").split("\n")
    if line
]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_every_vector_of_the_contract_is_matched_alike(vector: dict[str, Any]) -> None:
    assert matching.matches(matching.parse(vector["filter"]), vector["row"]) is vector["expect"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": "regex", "field": "f", "pattern": ".*"}, "regex"),
        ({"kind": "exists"}, "field"),
        ({"kind": "exists", "field": 1}, "str"),
        ({"kind": "exists", "field": "f", "not": True}, "not"),
        ({"kind": "type", "field": "f", "type": "array"}, "array"),
        ({"kind": "equals", "field": "f", "values": "a"}, "array"),
        ({"kind": "equals", "field": "f", "values": [None]}, "null"),
        ({"kind": "equals", "field": "f", "values": [["a"]]}, "array"),
        ({"kind": "equals", "field": "f", "values": [float("inf")]}, "doubles"),
        ({"kind": "equals", "field": "f", "values": ["a"], "ignoreCase": 1}, "bool"),
        ({"kind": "compare", "field": "f", "operator": "eq", "value": 1}, "eq"),
        ({"kind": "compare", "field": "f", "operator": "lt", "value": "1"}, "float"),
        ({"kind": "compare", "field": "f", "operator": "lt", "value": float("nan")}, "doubles"),
        ({"kind": "contains", "field": "f", "value": float("inf")}, "doubles"),
        ({"kind": "date", "field": "f", "operator": "before", "value": "2026-06-01"}, "timestamp"),
        ({"kind": "ip", "field": "f", "network": "10.0.0.0/33"}, "network"),
        ({"kind": "and", "filters": {"kind": "true"}}, "array"),
        ([], "object"),
        (None, "object"),
    ],
)
def test_a_filter_outside_the_grammar_is_refused_by_name(document: object, said: str) -> None:
    with pytest.raises(matching.InvalidFilter, match=said) as refusal:
        matching.parse(document)
    assert refusal.value.code == "INVALID_FILTER"


@pytest.mark.parametrize("depth", [matching.MAX_DEPTH, 100_000])
def test_a_filter_that_is_nested_too_deep_is_refused(depth: int) -> None:
    document: dict[str, Any] = {"kind": "true"}
    for _ in range(depth):
        document = {"kind": "not", "filter": document}
    with pytest.raises(matching.InvalidFilter, match="deeper"):
        matching.parse(document)


def test_a_filter_of_too_many_parts_is_refused() -> None:
    parts = [{"kind": "exists", "field": "a"}] * matching.MAX_PARTS
    with pytest.raises(matching.InvalidFilter, match="parts"):
        matching.parse({"kind": "or", "filters": parts})
    assert matching.parse({"kind": "or", "filters": parts[1:]})


def test_a_pattern_is_read_back_as_it_was_written() -> None:
    for pattern in ("a*b?c", "\\*\\?\\\\", "", "a\\", "\\a"):
        tokens = filters.tokens(pattern)
        assert filters.tokens(filters.pattern(tokens)) == tokens


def test_a_row_that_takes_too_much_work_does_not_pass_even_a_negation() -> None:
    heavy = filters.Not(filters.Like("f", "*" + "a?" * 500 + "b"))
    assert not matching.matches(heavy, {"f": "a" * 20_000})


def test_numbers_are_doubles() -> None:
    assert matching.matches(filters.Equals("f", (2.0**53,)), {"f": 2**53 + 1})
    assert not matching.matches(filters.Type("f", "number"), {"f": 10**400})
    assert not matching.matches(filters.Compare("f", "gt", 1.0), {"f": 10**400})


def test_case_is_lowered_in_full() -> None:
    assert matching.matches(filters.Equals("f", ("k",), ignore_case=True), {"f": "\u212a"})
    assert matching.matches(filters.Like("f", "ΑΣ*", ignore_case=True), {"f": "ας"})
    assert not matching.matches(filters.Equals("f", ("ss",), ignore_case=True), {"f": "ß"})
