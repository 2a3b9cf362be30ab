"""Rules of iam.md §1-§5 that no vector holds, each with the case that would show a slip."""

import json
from typing import Any

import pytest

from adapters.iam import questions
from domain import policy

LONG = "k" * 128


def statement(**parts: Any) -> dict[str, Any]:
    return {"effect": "allow", "actions": ["a:b"], "resources": ["t/*"]} | parts


def document(*statements: dict[str, Any], version: Any = 1) -> dict[str, Any]:
    return {"version": version, "statements": list(statements)}


def condition(operator: str, expected: Any, key: str = "k") -> dict[str, Any]:
    return document(statement(conditions={operator: {key: expected}}))


def asked(*grants: Any, action: Any = "a:b", resource: Any = "t/1", **rest: Any) -> dict[str, Any]:
    return {"action": action, "resource": resource, "grants": list(grants)} | rest


def answer(question: dict[str, Any]) -> dict[str, Any]:
    return questions.answer(json.dumps(question).encode(), explain=True)


LEGAL: list[tuple[str, Any]] = [
    ("version 1.0", document(version=1.0)),
    ("no statements", document()),
    ("128 statements", document(*[statement()] * 128)),
    ("C1 controls and NBSP", document(statement(sid="\x80\x9f\xa0", actions=["\x85"], resources=["\xa0"]))),
    ("sid of 64 astral characters", document(statement(sid="😀" * 64))),
    ("a lone surrogate", document(statement(sid="\ud800"))),
    ("$ and { apart", document(statement(actions=["$ {"], resources=["$a{/${k}"]))),
    ("variable of 128 characters", document(statement(resources=[f"t/${{{LONG}}}"]))),
    ("key __proto", condition("Exists", True, "__proto")),
    ("64 values", condition("StringEquals", ["v"] * 64)),
    ("control characters in a value", condition("StringEquals", "\x00\x7f\n")),
    ("an empty value", condition("StringLike", "")),
    ("2048 code units", condition("StringEquals", "😀" * 1024)),
    ("both truths", condition("Bool", [True, False])),
    ("mixed members", condition("ArrayContains", ["a", 1, True])),
    ("network with host bits", condition("IpAddress", "10.1.2.3/8")),
    ("year 0", condition("DateAfter", "0000-02-29T00:00:00.1-23:59")),
    ("negative zero", condition("NumericEquals", -0.0)),
]


@pytest.mark.parametrize("legal", [case for _, case in LEGAL], ids=[name for name, _ in LEGAL])
def test_a_document_that_is_odd_and_legal(legal: Any) -> None:
    assert "error" not in answer(asked(legal))


ILLEGAL: list[tuple[Any, str]] = [
    (document(version=True), "version"),
    (document(version="1"), "version"),
    (document(version=1.5), "version"),
    (document(version=None), "version"),
    ({"statements": []}, "version"),
    ({"version": 1}, "statements"),
    ({"version": 1, "statements": [], "id": "x"}, "document.id"),
    ([], "document"),
    (None, "document"),
    (document(*[statement()] * 129), "statements"),
    (document(statement(sid=None)), "statements[0].sid"),
    (document(statement(sid="")), "statements[0].sid"),
    (document(statement(sid="a\x7f")), "statements[0].sid"),
    (document(statement(sid="😀" * 64 + "a")), "statements[0].sid"),
    (document(statement(sid="0"), statement(sid="0")), "statements[1].sid"),
    (document(statement(effect="Allow")), "statements[0].effect"),
    (document(statement(effect=["allow"])), "statements[0].effect"),
    (document(statement(actions=[])), "statements[0].actions"),
    (document(statement(actions="a:b")), "statements[0].actions"),
    (document(statement(actions=["a"] * 129)), "statements[0].actions"),
    (document(statement(actions=["a:${k}"])), "statements[0].actions[0]"),
    (document(statement(actions=["a:${"])), "statements[0].actions[0]"),
    (document(statement(actions=["a\n"])), "statements[0].actions[0]"),
    (document(statement(actions=["a", 1])), "statements[0].actions[1]"),
    (document(statement(resources=["${k}"])), "statements[0].resources[0]"),
    (document(statement(resources=["t${k}/1"])), "statements[0].resources[0]"),
    (document(statement(resources=["t/${"])), "statements[0].resources[0]"),
    (document(statement(resources=["t/${1a}"])), "statements[0].resources[0]"),
    (document(statement(resources=["t/${}"])), "statements[0].resources[0]"),
    (document(statement(resources=[f"t/${{{LONG}k}}"])), "statements[0].resources[0]"),
    (document(statement(resources=["t/${é}"])), "statements[0].resources[0]"),
    (document(statement(conditions=None)), "statements[0].conditions"),
    (document(statement(conditions={})), "statements[0].conditions"),
    (document(statement(conditions={"stringEquals": {"k": "v"}})), "statements[0].conditions.stringEquals"),
    (document(statement(conditions={"StringEquals": {}})), "statements[0].conditions.StringEquals"),
    (
        document(statement(conditions={"Exists": {f"k{n}": True for n in range(65)}})),
        "statements[0].conditions.Exists",
    ),
    (condition("Exists", True, "__proto__"), "statements[0].conditions.Exists.__proto__"),
    (condition("Exists", True, "k\x00"), "statements[0].conditions.Exists key"),
    (condition("Exists", True, "k" * 129), "statements[0].conditions.Exists key"),
    (condition("Exists", 1), "statements[0].conditions.Exists.k"),
    (condition("Bool", "true"), "statements[0].conditions.Bool.k"),
    (condition("Bool", []), "statements[0].conditions.Bool.k"),
    (condition("StringEquals", None), "statements[0].conditions.StringEquals.k"),
    (condition("StringEquals", [["v"]]), "statements[0].conditions.StringEquals.k"),
    (condition("StringEquals", ["v"] * 65), "statements[0].conditions.StringEquals.k"),
    (condition("StringEquals", "😀" * 1024 + "a"), "statements[0].conditions.StringEquals.k"),
    (condition("StringEquals", "a${"), "statements[0].conditions.StringEquals.k"),
    (condition("StringLikeIgnoreCase", "${\u212a}"), "statements[0].conditions.StringLikeIgnoreCase.k"),
    (condition("NumericEquals", True), "statements[0].conditions.NumericEquals.k"),
    (condition("NumericEquals", "1"), "statements[0].conditions.NumericEquals.k"),
    (condition("ArrayContains", None), "statements[0].conditions.ArrayContains.k"),
    (condition("ArrayContains", {}), "statements[0].conditions.ArrayContains.k"),
    (condition("DateBefore", "2025-02-29T00:00:00Z"), "statements[0].conditions.DateBefore.k"),
    (condition("DateBefore", "1900-02-29T00:00:00Z"), "statements[0].conditions.DateBefore.k"),
    (condition("DateBefore", "2026-01-01T00:00:00.1234Z"), "statements[0].conditions.DateBefore.k"),
    (condition("DateBefore", "2026-01-01T00:00:00+24:00"), "statements[0].conditions.DateBefore.k"),
    (condition("DateBefore", 0), "statements[0].conditions.DateBefore.k"),
    (condition("IpAddress", "10.0.0.0/08"), "statements[0].conditions.IpAddress.k"),
    (condition("IpAddress", "10.0.0.0/33"), "statements[0].conditions.IpAddress.k"),
    (condition("IpAddress", "::/129"), "statements[0].conditions.IpAddress.k"),
    (condition("IpAddress", "fe80::1%eth0"), "statements[0].conditions.IpAddress.k"),
]


@pytest.mark.parametrize(("wrong", "where"), ILLEGAL, ids=[where for _, where in ILLEGAL])
def test_a_document_that_is_wrong_says_where(wrong: Any, where: str) -> None:
    found = answer(asked(document(statement()), wrong))
    assert found["error"] == "INVALID_POLICY"
    assert found["message"].startswith(f"{where}: "), found["message"]
    assert answer(asked(boundaries=[wrong]))["error"] == "INVALID_POLICY", "a bad boundary as well"


@pytest.mark.parametrize(
    ("question", "where"),
    [
        ({"resource": "t/1", "grants": []}, "action"),
        (asked(action=""), "action"),
        (asked(action="a" * 513), "action"),
        (asked(action="😀" * 257), "action"),
        (asked(action="a\x7f"), "action"),
        (asked(action=1), "action"),
        (asked(resource=""), "resource"),
        (asked(resource="r" * 2049), "resource"),
        (asked(resource=None), "resource"),
        ({"action": "a", "resource": "r"}, "grants"),
        ({"action": "a", "resource": "r", "grants": {}}, "grants"),
        (asked(boundaries=None), "boundaries"),
        (asked(boundaries={}), "boundaries"),
        (asked(context=None), "context"),
        (asked(context=[]), "context"),
        (asked("no document", action=""), "action"),
    ],
)
def test_a_request_that_is_wrong_says_where_before_any_document_is_looked_at(
    question: dict[str, Any], where: str
) -> None:
    found = answer(question)
    assert (found["error"], found["message"].partition(":")[0]) == ("INVALID_REQUEST", where)


@pytest.mark.parametrize(
    ("operator", "expected", "value", "holds"),
    [
        ("NumericEquals", 0, -0.0, True),
        ("NumericEquals", 2**53, 2**53 + 1, True),
        ("NumericEquals", 1, True, False),
        ("NumericEquals", 1, "1", False),
        ("NumericNotEquals", 1, "1", False),
        ("NumericLessThan", 10**308, -(10**400), False),
        ("NumericGreaterThan", 0, 10**400, False),
        ("StringEquals", "\u00e9", "e\u0301", False),
        ("StringEqualsIgnoreCase", "ẞ", "ß", True),
        ("StringEqualsIgnoreCase", "SS", "ß", False),
        ("StringEqualsIgnoreCase", "\u212a", "k", True),
        ("StringEqualsIgnoreCase", "İ", "i\u0307", True),
        ("StringNotEqualsIgnoreCase", ["A", "B"], "b", False),
        ("StringLike", "a?c", "a😀c", True),
        ("StringLike", "a??c", "a😀c", False),
        ("StringLike", "a\\*", "a\\bc", True),
        ("StringLike", "[a]", "a", False),
        ("StringLike", "", "", True),
        ("StringLike", "", "a", False),
        ("StringLike", "*", "a\nb", True),
        ("StringNotLike", ["a*", "b*"], "bc", False),
        ("StringNotEquals", "${gone}", "v", True),
        ("StringNotLike", ["v", "${gone}"], "v", False),
        ("StringLike", "${gone}", "${gone}", False),
        ("StringEquals", "*", "*", True),
        ("StringEquals", "*", "a", False),
        ("ArrayContains", "${number}", ["1e+21"], True),
        ("ArrayContains", "${number}", [1e21], False),
        ("ArrayContains", 1, [True, "1", [1]], False),
        ("ArrayContains", True, [1], False),
        ("ArrayContains", 1, [1.0], True),
        ("ArrayContainsAll", ["a", "${gone}"], ["a"], False),
        ("ArrayContains", "a", "a", False),
        ("Exists", [True, False], None, True),
        ("Exists", True, None, True),
        ("Bool", True, 1, False),
        ("DateBefore", "2026-01-01T00:00:00Z", "2026-01-01T00:59:59.999+01:00", True),
        ("DateBefore", "2026-01-01T00:00:00Z", "2025-12-31T23:59:60Z", False),
        ("DateAfter", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.100Z", False),
        ("DateAfter", "1970-01-01T00:00:00Z", 1, False),
        ("IpAddress", "10.1.2.3/8", "10.9.9.9", True),
        ("IpAddress", "::/0", "192.0.2.1", False),
        ("IpAddress", "::/0", "::ffff:192.0.2.1", True),
        ("IpAddress", "192.0.2.0/24", "::FFFF:c000:201", True),
        ("IpAddress", "::ffff:192.0.2.0/120", "192.0.2.9", True),
        ("IpAddress", "::ffff:0:0/95", "192.0.2.9", False),
        ("IpAddress", "::192.0.2.1", "192.0.2.1", False),
        ("IpAddress", "64:ff9b::192.0.2.1", "192.0.2.1", False),
        ("NotIpAddress", ["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.1", False),
        ("NotIpAddress", "10.0.0.0/8", "nowhere", False),
        ("NotIpAddress", "10.0.0.0/8", "10.0.0.1/8", False),
    ],
)
def test_an_operator_holds_or_not(operator: str, expected: Any, value: Any, holds: bool) -> None:
    context = {"k": value, "number": 1e21}
    assert answer(asked(condition(operator, expected), context=context))["allowed"] is holds


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("1e21", "1e+21"),
        ("1e20", "1" + "0" * 20),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("123456789012345680000", "123456789012345680000"),
        ("9007199254740993", "9007199254740992"),
        ("-1.5e-10", "-1.5e-10"),
        ("4.35", "4.35"),
        ("1e400", "Infinity"),
    ],
)
def test_a_number_of_a_line_stands_in_a_resource_as_ecmascript_writes_it(number: str, written: str) -> None:
    line = json.dumps(asked(document(statement(resources=["t/${n}"])), resource=f"t/{written}", context={"n": "?"}))
    assert questions.answer(line.replace('"?"', number).encode())["allowed"]


def test_what_a_variable_puts_in_is_no_pattern_and_is_not_read_again() -> None:
    grant = document(statement(resources=["t/${k}"]))
    assert not answer(asked(grant, context={"k": "*"}))["allowed"]
    assert answer(asked(grant, resource="t/${k}", context={"k": "${k}"}))["allowed"]
    assert not answer(asked(grant, resource="t/", context={"k": [1]}))["allowed"]
    assert not answer(asked(grant, resource="t/null", context={"k": None}))["allowed"]


def test_keys_are_flat_and_a_nested_object_is_not_walked() -> None:
    assert not answer(asked(condition("Exists", True, "a.b"), context={"a": {"b": 1}}))["allowed"]
    assert answer(asked(condition("Exists", True, "a.b"), context={"a.b": None}))["allowed"]


def test_names_of_variables_lose_their_case_in_like_ignore_case() -> None:
    grant = condition("StringLikeIgnoreCase", "X-${principal.ID}")
    assert not answer(asked(grant, context={"k": "x-1", "principal.ID": "1"}))["allowed"]
    assert answer(asked(grant, context={"k": "x-1", "principal.id": "1"}))["allowed"]


def test_a_deny_in_a_boundary_comes_before_what_lacks_a_grant_and_before_a_silent_boundary() -> None:
    deny = document(statement(effect="deny", sid="no"))
    silent = document()
    assert answer(asked(boundaries=[silent, deny])) == {
        "allowed": False,
        "reason": "explicit-deny",
        "matched": ["boundary:1:no"],
    }
    assert answer(asked(boundaries=[silent]))["reason"] == "no-grant"
    assert answer(asked(document(statement()), boundaries=[deny]))["reason"] == "explicit-deny"
    assert answer(asked(document(statement()), boundaries=[silent]))["reason"] == "boundary-deny"
    other = document(statement(effect="deny", actions=["x"]))
    assert answer(asked(document(statement()), boundaries=[other]))["reason"] == "boundary-deny", "denies only"


def test_the_budget_is_for_one_evaluation_and_ends_in_a_denial_with_what_matched_so_far() -> None:
    dear = statement(conditions={"StringLike": {"k": ["*" + "a?" * 500 + "b"] * 8}})
    question = asked(document(statement(sid="first"), dear, statement(effect="deny")), context={"k": "a" * 60_000})
    assert answer(question) == {"allowed": False, "reason": "evaluation-limit", "matched": ["grant:0:first"]}
    assert answer(asked(document(statement(sid="first"))))["allowed"], "the next begins anew"


def test_an_empty_context_and_one_that_is_left_out_are_the_same() -> None:
    grant = condition("Exists", False)
    assert answer(asked(grant)) == answer(asked(grant, context={})) == answer(asked(grant, boundaries=[]))
    assert policy.evaluate_documents("a:b", "t/1", [grant]).allowed
