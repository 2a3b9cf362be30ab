"""The policy language decides as Better IAM does; iam-vectors.jsonl is the contract, the rest goes beyond."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import policy
from domain.policy import glob, instant, meter, network, template, text

VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "iam-vectors.jsonl").read_text("utf-8").split("\n") if line
]


def statement(effect: str = "allow", **parts: Any) -> dict[str, Any]:
    return {"effect": effect, "actions": ["a:b"], "resources": ["t/*"], **parts}


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "statements": list(statements)}


def decide(*grants: Any, action: str = "a:b", resource: str = "t/1", **rest: Any) -> policy.Decision:
    return policy.evaluate_documents(action, resource, list(grants), **rest)


def holds(operator: str, expected: Any, **context: Any) -> bool:
    conditions = {operator: {"k": expected}}
    return decide(document(statement(conditions=conditions)), context=context).allowed


def outcome(vector: dict[str, Any]) -> dict[str, Any]:
    present = {key: vector[key] for key in ("boundaries", "context") if key in vector}
    try:
        decision = policy.evaluate_documents(
            vector.get("action"), vector.get("resource"), vector.get("grants"), **present
        )
    except (policy.InvalidPolicy, policy.InvalidRequest) as refusal:
        return {"error": refusal.code}
    return {"allowed": decision.allowed, "reason": decision.reason, "matched": list(decision.matched)}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_every_vector_of_the_contract_is_decided_alike(vector: dict[str, Any]) -> None:
    assert outcome(vector) == vector["expect"]


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (-12.25, "-12.25"),
        (0.001, "0.001"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.25e-9, "1.25e-9"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (123456789012345680000, "123456789012345680000"),
        (2**53 + 1, "9007199254740992"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (100, "100"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(number: float, written: str) -> None:
    assert template.resolve(template.parse("${n}"), {"n": number}) == written


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.1Z", 100),
        ("2026-03-01T00:00:00+23:59", 1_772_323_200_000 - 86_340_000),
        ("0000-02-29T00:00:00Z", -62_162_121_600_000),
        ("2025-02-29T00:00:00Z", None),
        ("2026-01-01T00:00:00Z\n", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01T00:00:60Z", None),
        ("2026-01-01t00:00:00z", None),
        ("٢٠٢٦-01-01T00:00:00Z", None),
    ],
)
def test_timestamps_have_one_form(written: str, moment: int | None) -> None:
    assert instant.epoch_ms(written) == moment


@pytest.mark.parametrize(
    ("net", "who", "inside"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.9.9.9/8", "10.0.0.1", True),
        ("0.0.0.0/0", "::ffff:1.2.3.4", True),
        ("::/0", "1.2.3.4", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/95", "10.1.2.3", False),
        ("::1.2.3.4", "1.2.3.4", False),
        ("2001:DB8::/32", "2001:db8:0:1::", True),
    ],
)
def test_families_meet_only_in_mapped_addresses(net: str, who: str, inside: bool) -> None:
    parsed, address = network.network(net), network.address(who)
    assert parsed is not None
    assert address is not None
    assert network.contains(parsed, address) is inside


@pytest.mark.parametrize(
    "written",
    [
        *("1.2.3", "01.2.3.4", "1.2.3.256", "1.2.3.4.5", "", " ::1", ":::", "1::2::3", "1:2:3:4:5:6:7"),
        *("1:2:3:4:5:6:7:8::", "::1.2.3.4:1", "1.2.3.4::", "fe80::1%eth0", "[::1]", "12345::", "::1:"),
    ],
)
def test_an_address_that_is_not_one_is_refused(written: str) -> None:
    assert network.address(written) is None
    assert network.network(f"{written}/1") is None


@pytest.mark.parametrize("prefix", ["33", "08", "+8", "-1", " 8", "8 ", "", "8/8", "255.0.0.0"])
def test_a_prefix_is_a_plain_decimal(prefix: str) -> None:
    assert network.network(f"10.0.0.0/{prefix}") is None


def test_lengths_are_counted_in_utf16() -> None:
    decide(document(statement(resources=["😀" * 256])))
    with pytest.raises(policy.InvalidPolicy, match=r"statements\[0\]\.resources\[0\]"):
        decide(document(statement(resources=["😀" * 256 + "x"])))


def test_null_is_not_absence() -> None:
    with pytest.raises(policy.InvalidRequest):
        decide(document(), context=None)
    with pytest.raises(policy.InvalidRequest):
        decide(document(), boundaries=None)


def test_a_bad_request_is_told_before_a_bad_document() -> None:
    with pytest.raises(policy.InvalidRequest):
        decide({"version": 2}, action="")


def test_a_mistake_is_named_by_its_path() -> None:
    with pytest.raises(policy.InvalidPolicy) as refusal:
        policy.validate(document(statement(), statement(conditions={"NumericEquals": {"k": "1"}})))
    assert refusal.value.field == "statements[1].conditions.NumericEquals.k"
    assert refusal.value.message == "must be a finite number"


def test_negated_operators_hold_against_an_unresolved_variable() -> None:
    assert holds("StringNotEquals", "${missing}", k="v")
    assert holds("StringNotLike", "${missing}", k="v")
    assert not holds("StringEquals", "${missing}", k="v")


def test_a_missing_key_holds_for_no_operator_but_exists() -> None:
    assert not holds("StringNotEquals", "v")
    assert not holds("NotIpAddress", "10.0.0.0/8")
    assert holds("Exists", False)
    assert holds("Exists", True, k=None)


def test_positive_lists_need_one_and_negated_lists_all() -> None:
    assert holds("NumericLessThan", [1, 2], k=1.5)
    assert not holds("NumericNotEquals", [1, 2], k=2.0)
    assert holds("ArrayContainsAll", ["a", "b"], k=["b", "a"])
    assert not holds("ArrayContainsAll", ["a", "b"], k=["a"])


def test_types_are_kept_apart() -> None:
    assert not holds("NumericEquals", 1, k=True)
    assert not holds("Bool", True, k=1)
    assert not holds("ArrayContains", 1, k=[True, "1"])
    assert holds("ArrayContains", 1, k=[1.0])
    assert not holds("NumericGreaterThan", 1, k=10**400)


def test_a_wildcard_in_a_value_is_text() -> None:
    allow = document(statement(resources=["t/${k}"]))
    assert decide(allow, resource="t/*", context={"k": "*"}).allowed
    assert not decide(allow, resource="t/1", context={"k": "*"}).allowed
    assert decide(document(statement(resources=["t/a*"])), resource="t/a*b").allowed


def test_substitution_joins_halves_of_a_surrogate_pair() -> None:
    assert holds("StringEquals", "${high}\ude00", k="😀", high="\ud83d")


def test_running_out_of_work_denies_even_what_was_allowed() -> None:
    heavy = statement(conditions={"StringLike": {"k": "*" + "?" * 300 + "b"}}, sid="heavy")
    decision = decide(document(statement(), heavy), context={"k": "a" * 20_000})
    assert decision == policy.Decision(False, "evaluation-limit", ("grant:0:0",))


def test_actions_that_cost_too_much_to_find_exhaust_the_budget_too() -> None:
    dear = statement(actions=["*" + "?" * 200 + "b"] * 128)
    assert decide(document(statement(), dear)).allowed
    assert decide(document(statement(actions=["*"]), dear), action="a" * 512).reason == "evaluation-limit"


def test_a_route_costs_the_same_the_second_time() -> None:
    compiled = policy.validate(document(statement(actions=["x", "a:*"]), statement(actions=["z"])))
    route = compiled.route("a:b")
    assert [work for work, _ in route.steps] == [1 + 3 + 3 + 3]
    assert route.rest == 1 + 3
    assert compiled.route("a:b") is route


def test_the_memory_of_routes_is_bounded() -> None:
    compiled = policy.validate(document(statement(actions=["a:*"])))
    first = compiled.route("a:0")
    for number in range(2000):
        compiled.route(f"a:{number}")
    assert compiled.route("a:0") == first
    assert compiled.route("a:0") is not first


def test_a_document_says_which_context_it_reads() -> None:
    compiled = policy.validate(
        document(
            statement(resources=["t/${principal.id}"]),
            statement(conditions={"StringLike": {"a": "${b}?"}, "ArrayContains": {"c": ["${d}", 1]}}),
        )
    )
    assert compiled.keys == {"principal.id", "a", "b", "c", "d"}


PATTERNS = st.text(alphabet="ab*?", max_size=8)
VALUES = st.text(alphabet="ab*😀", max_size=8)


def naive(pattern: str, value: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(naive(pattern[1:], value[at:]) for at in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and naive(pattern[1:], value[1:])


@given(PATTERNS, VALUES)
def test_globs_match_as_the_definition_says(pattern: str, value: str) -> None:
    assert glob.parse(pattern).matches(value, {}, meter.Meter()) is naive(pattern, value)


STATEMENTS = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["allow", "deny"]),
        "actions": st.lists(st.sampled_from(["*", "a:b", "a:*", "c:?"]), min_size=1, max_size=2),
        "resources": st.lists(st.sampled_from(["*", "t/1", "t/*", "t/${k}"]), min_size=1, max_size=2),
    },
    optional={
        "conditions": st.sampled_from(
            [{"Exists": {"k": True}}, {"StringNotEquals": {"k": "1"}}, {"ArrayContains": {"l": "x"}}]
        )
    },
)
DOCUMENTS = st.builds(lambda statements: document(*statements), st.lists(STATEMENTS, max_size=4))
REQUESTS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["a:b", "a:c", "c:d"]),
        "resource": st.sampled_from(["t/1", "t/2", "u/1"]),
        "context": st.sampled_from([{}, {"k": "1"}, {"k": "2", "l": ["x"]}]),
    }
)


def ask(request: dict[str, Any], grants: list[Any], boundaries: list[Any]) -> policy.Decision:
    return policy.evaluate(
        request["action"],
        request["resource"],
        [policy.validate(one) for one in grants],
        [policy.validate(one) for one in boundaries],
        request["context"],
    )


@given(REQUESTS, st.lists(DOCUMENTS, max_size=3), st.lists(DOCUMENTS, max_size=2), STATEMENTS)
def test_adding_a_deny_never_allows(
    request: dict[str, Any], grants: list[Any], boundaries: list[Any], extra: dict[str, Any]
) -> None:
    before = ask(request, grants, boundaries)
    after = ask(request, [*grants, document({**extra, "effect": "deny"})], boundaries)
    assert before.allowed or not after.allowed


@given(REQUESTS, st.lists(DOCUMENTS, max_size=3), st.lists(DOCUMENTS, max_size=2), DOCUMENTS)
def test_a_boundary_never_grants(
    request: dict[str, Any], grants: list[Any], boundaries: list[Any], extra: dict[str, Any]
) -> None:
    before = ask(request, grants, boundaries)
    after = ask(request, grants, [*boundaries, extra])
    assert before.allowed or not after.allowed
    assert not ask(request, [], [*boundaries, extra]).allowed


@given(REQUESTS, st.lists(DOCUMENTS, max_size=3), st.lists(DOCUMENTS, max_size=2))
def test_the_order_of_documents_decides_nothing(
    request: dict[str, Any], grants: list[Any], boundaries: list[Any]
) -> None:
    one, other = ask(request, grants, boundaries), ask(request, grants[::-1], boundaries[::-1])
    assert (one.allowed, one.reason) == (other.allowed, other.reason)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_back_as_itself(number: float) -> None:
    assert float(text.number_text(number)) == number
