"""A plan says of every row what a decision would say of the thing: on the vectors, and on policies made at random."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import policy
from domain.policy import filters, instant, matching, network, operators, planning

VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "iam-vectors.jsonl").read_text("utf-8").split("\n") if line
]
OF_SERVER = ("resource.tenantId", "resource.relations", "resource.parentRelations")


def document(*statements: dict[str, Any]) -> policy.Compiled:
    return policy.validate({"version": 1, "statements": list(statements)})


def statement(effect: str = "allow", resources: tuple[str, ...] = ("t/*",), **conditions: Any) -> dict[str, Any]:
    known = {"conditions": conditions} if conditions else {}
    return {"effect": effect, "actions": ["a:b"], "resources": list(resources), **known}


def planned(*grants: policy.Compiled, boundaries: tuple[policy.Compiled, ...] = (), **known: Any) -> filters.Filter:
    return planning.plan("a:b", "t", grants, boundaries, planning.Known(known.pop("context", {}), **known))


def row_of(id: str, context: dict[str, Any]) -> dict[str, Any]:
    attributes = {k.removeprefix("resource."): v for k, v in context.items() if k.startswith("resource.")}
    return {**attributes, "id": id}


def known_of(type: str, id: str, context: dict[str, Any]) -> planning.Known:
    """What the directory would know: relations are those of this thing, and of its parent."""
    now = {k: v for k, v in context.items() if not k.startswith("resource.") or k == "resource.tenantId"}
    own, parents = context["resource.relations"], {}
    if isinstance(context.get("resource.parentType"), str) and isinstance(context.get("resource.parentId"), str):
        parents = {context["resource.parentType"]: {context["resource.parentId"]: context["resource.parentRelations"]}}
    return planning.Known(now, {id: own, "another": ["x", "y"]} if own else {"another": ["x", "y"]}, parents)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_the_plan_says_of_every_vector_what_the_decision_says(vector: dict[str, Any]) -> None:
    expected = vector["expect"]
    if "error" in expected or expected["reason"] == "evaluation-limit" or "/" not in vector["resource"]:
        return
    context = {"resource.relations": [], "resource.parentRelations": [], **vector.get("context", {})}
    grants = [policy.validate(one) for one in vector["grants"]]
    boundaries = [policy.validate(one) for one in vector.get("boundaries", [])]
    type, _, id = vector["resource"].partition("/")
    decided = policy.evaluate(vector["action"], vector["resource"], grants, boundaries, context)
    try:
        plan = planning.plan(vector["action"], type, grants, boundaries, known_of(type, id, context))
    except planning.Unsupported:
        assert "${resource." in json.dumps(vector) or "resource.id" in json.dumps(vector)
        return
    assert matching.matches(plan, row_of(id, context)) is decided.allowed


TEXTS = st.sampled_from(
    [
        *("", "a", "A", "b", "ab", "a*", "?", "\\", "a\\*", "İ", "i̇", "ΑΣ", "ας", "K", "k", "😀", "\ud83d", "1"),
        *("10.0.0.1", "10.0.0.0/8", "::ffff:10.0.0.1", "::1", "fe80::1%1", "x", "true", "1e+21"),
        *("2026-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-02-30T00:00:00Z"),
    ]
)
NUMBERS = st.sampled_from([0, -0.0, 1, 1.0, 1.5, -2, 2**53, 2**53 + 1, 1e21, 5e-324])
ANY = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none(), st.sampled_from([10**400, float("inf")]))
VALUES = st.one_of(ANY, st.lists(ANY, max_size=3), st.just({"a": 1}))
KNOWN_KEYS = ["principal.id", "principal.n", "principal.l", "k", "resource.tenantId"]
ROW_KEYS = ["resource.s", "resource.n", "resource.l", "resource.parentId", "resource.parentType"]
RELATIONS = ["resource.relations", "resource.parentRelations"]
TEMPLATES = st.lists(
    st.one_of(TEXTS, st.sampled_from(["*", "?", *(f"${{{key}}}" for key in [*KNOWN_KEYS, "missing"])])), max_size=3
).map("".join)
EXPECTED: dict[str, st.SearchStrategy[Any]] = {
    **{name: TEMPLATES for name in operators.OPERATORS if name.startswith("String")},
    **{name: NUMBERS for name in operators.OPERATORS if name.startswith("Numeric")},
    **{name: st.booleans() for name in ("Bool", "Exists")},
    **{
        name: st.sampled_from(["2026-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59.5-23:59"])
        for name in ("DateBefore", "DateAfter")
    },
    **{
        name: st.sampled_from(["10.0.0.0/8", "10.0.0.1", "::/0", "::ffff:10.0.0.0/104", "::ffff:0:0/95", "fe80::/10"])
        for name in ("IpAddress", "NotIpAddress")
    },
    **{
        name: st.one_of(TEMPLATES, NUMBERS, st.booleans(), st.sampled_from(["x", "y"]))
        for name in ("ArrayContains", "ArrayContainsAll")
    },
}


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(operators.OPERATORS)))
        key = draw(st.sampled_from([*ROW_KEYS, *ROW_KEYS, *RELATIONS, *KNOWN_KEYS, "missing"]))
        expected = draw(st.one_of(EXPECTED[name], st.lists(EXPECTED[name], min_size=1, max_size=3)))
        found.setdefault(name, {})[key] = expected
    return found


PATTERNS = st.one_of(
    st.sampled_from(["*", "t/*", "t*", "*a*", "?/*", "t/a", "t/**", "*/a?", "u/*", "t/", "t", "t/\\*", "*t/a*/*"]),
    TEMPLATES.map(lambda text: f"t/{text}"),
)
STATEMENTS = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["allow", "allow", "deny"]),
        "actions": st.lists(st.sampled_from(["*", "a:b", "a:*", "c:?"]), min_size=1, max_size=2),
        "resources": st.lists(PATTERNS, min_size=1, max_size=2),
    },
    optional={"conditions": conditions()},
)
DOCUMENTS = st.lists(STATEMENTS, max_size=4).map(lambda statements: document(*statements))
NAMES = st.lists(st.sampled_from(["x", "y", "z"]), unique=True, max_size=2).map(sorted)
CONTEXTS = st.fixed_dictionaries(
    {"resource.relations": NAMES, "resource.parentRelations": NAMES},
    optional=dict.fromkeys([*KNOWN_KEYS, *ROW_KEYS], VALUES),
)
IDS = st.sampled_from(["", "a", "b", "ab", "a/b", "*", "\\*", "a*", "\\", "😀", "A", "10.0.0.1"])


@settings(max_examples=1500)
@given(st.lists(DOCUMENTS, max_size=3), st.lists(DOCUMENTS, max_size=2), CONTEXTS, IDS)
def test_the_plan_says_of_every_row_what_the_decision_says(
    grants: list[policy.Compiled],
    boundaries: list[policy.Compiled],
    context: dict[str, Any],
    id: str,
) -> None:
    if not isinstance(context.get("resource.parentType"), str) or not isinstance(context.get("resource.parentId"), str):
        context["resource.parentRelations"] = []
    decided = policy.evaluate("a:b", f"t/{id}", grants, boundaries, context)
    try:
        plan = planning.plan("a:b", "t", grants, boundaries, known_of("t", id, context))
    except planning.Unsupported:
        assert any("resource.tenantid" in one.keys for one in (*grants, *boundaries)), "a name in lower case"
        return
    assert matching.matches(plan, row_of(id, context)) is decided.allowed


EVERYTHING = document(statement(resources=("*",)))


@pytest.mark.parametrize(
    ("grants", "boundaries", "expected"),
    [
        ([], (), filters.Never()),
        ([document()], (), filters.Never()),
        ([EVERYTHING], (), filters.Always()),
        ([document(statement())], (EVERYTHING, EVERYTHING), filters.Always()),
        ([document(statement(resources=("u/*",)))], (), filters.Never()),
        ([EVERYTHING], (document(),), filters.Never()),
        ([EVERYTHING], (document(statement("deny", ("t/a",))),), filters.Never()),
        ([EVERYTHING, document(statement("deny", ("t*",)))], (), filters.Never()),
        ([document(statement(Exists={"resource.s": [True, False]}))], (), filters.Always()),
        (
            [document(statement(Exists={"resource.s": True}), statement(Exists={"resource.s": False}))],
            (),
            filters.Always(),
        ),
        ([document(statement(resources=("t/a",)))], (document(statement(resources=("t/b",))),), filters.Never()),
        ([document(statement(StringNotEquals={"principal.id": "me"}))], (), filters.Never()),
        ([document(statement(StringEquals={"principal.id": "${resource.s}"}))], (), filters.Never()),
        ([document(statement(StringEquals={"resource.relations": "x"}))], (), filters.Never()),
        ([document(statement(ArrayContains={"resource.relations": "z"}))], (), filters.Never()),
        ([document(statement(Exists={"resource.parentRelations": True}))], (), filters.Always()),
        (
            [document(statement(), statement(StringEquals={"resource.s": "a"}))],
            (EVERYTHING, document(statement(NumericEquals={"resource.n": 1}), statement(Bool={"resource.n": True}))),
            filters.Equals("n", (1.0, True)),
        ),
    ],
)  # fmt: skip
def test_what_always_or_never_holds_is_found(
    grants: list[policy.Compiled], boundaries: tuple[policy.Compiled, ...], expected: filters.Filter
) -> None:
    assert repr(planned(*grants, boundaries=boundaries, relations={"1": ["x"]})) == repr(expected)


def test_a_pattern_behind_the_type_is_a_condition_on_the_id() -> None:
    def on_id(*resources: str, **context: Any) -> filters.Filter:
        return planned(document(statement(resources=resources)), context=context)

    assert on_id("t/a", "t/b") == filters.Equals("id", ("a", "b"))
    assert on_id("t/a*?\\") == filters.Like("id", "a*?\\\\")
    assert on_id("t/${k}*", k="a*?\\") == filters.Like("id", "a\\*\\?\\\\*")
    assert on_id("t/${k}", k="a*") == filters.Equals("id", ("a*",))
    assert on_id("t/${k}") == filters.Never()
    assert on_id("*/b") == filters.Or((filters.Equals("id", ("b",)), filters.Like("id", "*/b")))


def test_relations_become_lists_of_ids() -> None:
    users = document(statement(ArrayContains={"resource.relations": ["user", "admin"]}))
    assert planned(users, relations={"1": ["user"], "2": ["viewer"], "3": ["admin", "user"]}) == filters.Equals(
        "id", ("1", "3")
    )
    below = document(statement(ArrayContainsAll={"resource.parentRelations": ["user"]}))
    assert planned(below, parents={"pool": {"p": ["user"], "q": ["viewer"]}, "site": {"s": ["viewer"]}}) == filters.And(
        (filters.Equals("parentType", ("pool",)), filters.Equals("parentId", ("p",)))
    )


@pytest.mark.parametrize(
    "conditions",
    [
        {"StringEquals": {"resource.s": "${resource.t}"}},
        {"StringLike": {"resource.s": "${resource.t}*"}},
        {"StringEquals": {"principal.id": "${resource.s}"}},
        {"ArrayContains": {"resource.l": "${resource.s}"}},
        {"ArrayContains": {"resource.relations": "${resource.s}"}},
        {"Exists": {"resource.id": True}},
        {"StringEquals": {"resource.id": "a"}},
        {"StringEquals": {"resource.s": ["x" * 2000] * 64}},
        {"StringLike": {"resource.s": ["x" * 2000 + "?"] * 64}},
    ],
)
def test_what_no_filter_says_is_unsupported(conditions: dict[str, Any]) -> None:
    heavy = [document(*[statement(**conditions)] * 2)]
    with pytest.raises(planning.Unsupported):
        planned(*heavy, context={"principal.id": "me"})
    with pytest.raises(planning.Unsupported):
        planned(document(statement(resources=("t/${resource.s}",))))


def test_a_statement_that_cannot_apply_is_not_looked_into() -> None:
    other = statement(StringEquals={"principal.id": "you", "resource.s": "${resource.t}"})
    assert planned(document(statement(), other), context={"principal.id": "me"}) == filters.Always()


@given(st.integers(instant.epoch_ms("0000-01-01T00:00:00+23:59"), instant.epoch_ms("9999-12-31T23:59:59.999-23:59")))
def test_an_instant_is_read_back_as_it_was_written(moment: int) -> None:
    assert instant.epoch_ms(instant.written(moment)) == moment


@given(st.sampled_from([32, 128]), st.data())
def test_a_network_is_read_back_as_it_was_written(bits: int, data: st.DataObject) -> None:
    address = network.Address(bits, data.draw(st.integers(0, 2**bits - 1)))
    net = network.Network(address, data.draw(st.integers(0, bits)))
    assert network.network(network.written(net)) == net
