"""Chains and canonical JSON as Better IAM has them (iam.md §17); iam-protocol-vectors.jsonl says what it computes."""

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from domain import canonical, chain

VECTORS = [json.loads(line) for line in (Path(__file__).parent / "iam-protocol-vectors.jsonl").read_text().splitlines()]
HASHES = [vector for vector in VECTORS if vector["kind"] == "audit-hash"]
CHAINS = [vector for vector in VECTORS if vector["kind"] == "audit-chain"]

TEXT = st.text(st.characters(codec=None), max_size=6)
KEYS = TEXT | st.from_regex(r"[0-9]{1,11}", fullmatch=True) | st.sampled_from(["\uff5e", "\U0001f600", "a", "Z", "-1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)


def name(vector: dict[str, Any]) -> str:
    return vector["name"]


@pytest.mark.parametrize("vector", HASHES, ids=name)
def test_an_event_has_the_hash_that_better_iam_computes(vector):
    assert canonical.encode(vector["event"]).decode() == vector["canonical"]
    assert canonical.written(vector["event"]).decode() == vector["canonical"]
    assert chain.digest(vector["event"]) == vector["hash"]


@pytest.mark.parametrize("vector", CHAINS, ids=name)
def test_a_chain_is_judged_as_better_iam_judges_it(vector):
    options, expect = vector["options"], vector["expect"]
    head = chain.Head(**options["head"]) if "head" in options else None
    verdict = chain.verify(vector["events"], options.get("previousHash"), head)
    told: dict[str, Any] = {"valid": verdict.valid, "checked": verdict.checked, "unchained": verdict.unchained}
    told |= {"first": verdict.first, "last": verdict.last, "lastHash": verdict.last_hash}
    if verdict.failure:
        failure = verdict.failure
        told["failure"] = {"sequence": failure.sequence, "id": failure.id, "reason": failure.reason}
    assert {key: value for key, value in told.items() if value is not None} == expect


@given(JSON)
@example({"10": 1, "9": 2, "a": {"01": "\x1f\u2028\x7f"}, "\ud83d": "\ud83d\ude00"})
@example({"a": 2**53, "b": -(2**53) - 1, "c": 1.0, "d": -0.0})
def test_the_fast_way_writes_what_the_slow_one_writes(value):
    assert canonical.encode(value) == canonical.written(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=4).filter(lambda key: not key.isdigit()),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_without_index_keys_it_is_rfc_8785(value):
    assert canonical.encode(value) == rfc8785.dumps(value)


def test_what_json_has_no_form_for_is_refused():
    with pytest.raises(ValueError, match="no form"):
        canonical.encode({"a": inf})
    with pytest.raises(TypeError, match="set"):
        canonical.encode({"a": {1, 2}})


def test_linked_events_verify_and_each_says_what_it_follows():
    head, run = chain.Head(), []
    for n in range(5):
        event: dict[str, Any] = {"id": f"evt_{n}", "tenantId": "acme", "timestamp": n}
        head = chain.link(event, head)
        run.append(event)
    assert chain.verify(run, head=head) == chain.Verdict(5, 0, 1, 5, head.hash)
    assert run[0]["previousHash"] == "0" * 64
