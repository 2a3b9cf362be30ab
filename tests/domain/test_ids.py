"""Identifiers and names as domain.md §1 spells them."""

import pytest

from domain import errors, ids

BODY = "t37h5a9y342t8v1r3k1qcqyexw1w58j772s590w1rw5nyjfj0bqg"
GENERATED = "01hzx3v8k2m4n6p8q0r2s4t6v8"


def test_the_example_of_the_domain() -> None:
    assert ids.derive("rsv", "acme", "alice", "job-1") == f"rsv_{BODY}"


@pytest.mark.parametrize(
    "other",
    [("acme", "alice", "job-2"), ("acme", "bob", "job-1"), ("globex", "alice", "job-1"), ("acmea", "lice", "job-1")],
)
def test_another_caller_or_key_makes_another_id(other: tuple[str, str, str]) -> None:
    """The parts are told apart by their lengths: what is moved from one into the next is another caller."""
    assert ids.derive("rsv", *other) != f"rsv_{BODY}"


@pytest.mark.parametrize(("prefix", "text"), [("rsv", f"rsv_{BODY}"), ("node", f"node_{GENERATED}")])
def test_an_id_is_returned_as_it_came(prefix: str, text: str) -> None:
    assert ids.parse(prefix, text) == text


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("rsv", f"node_{GENERATED}"),
        ("rsv", BODY),
        ("rsv", f"rsv{BODY}"),
        ("rsv", f"RSV_{BODY}"),
        ("rsv", f"rsv_{BODY.upper()}"),
        ("rsv", f"rsv_T{BODY[1:]}"),
        *(("rsv", f"rsv_{letter}{BODY[1:]}") for letter in "ilou-_ é٣"),
        ("rsv", f"rsv_{BODY[1:]}"),
        ("rsv", f"rsv_{BODY}0"),
        ("rsv", f"rsv_{BODY}\n"),
        ("rsv", f" rsv_{BODY}"),
        ("rsv", "rsv_"),
        ("rsv", ""),
        ("rsv", f"rsv_{GENERATED}"),
        ("node", f"node_{BODY}"),
        ("node", f"node_8{GENERATED[1:]}"),
        ("node", f"node_{GENERATED[1:]}"),
        ("node", f"node_{GENERATED}0"),
    ],
)
def test_another_prefix_case_letter_or_length_is_refused_by_field(prefix: str, text: str) -> None:
    with pytest.raises(errors.Invalid, match=f"expected {prefix}_ and") as refused:
        ids.parse(prefix, text, "poolId")
    assert refused.value.field == "poolId"


def test_a_refusal_repeats_no_more_than_the_beginning_of_what_it_was_given() -> None:
    with pytest.raises(errors.Invalid) as refused:
        ids.parse("node", "x" * 10_000)
    assert len(refused.value.detail) < 250


@pytest.mark.parametrize("text", ["a", "7", "eu-north", "a-b--c", "x" * 63, "0" * 63])
def test_a_name(text: str) -> None:
    assert ids.name(text) == text


@pytest.mark.parametrize(
    "text", ["", "-", "-a", "a-", "A", "eu_north", "eu.north", "eu north", "ü", "٣", "a\n", "x" * 64]
)
def test_what_is_no_name_is_refused_by_field(text: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        ids.name(text, "site")
    assert refused.value.field == "site"


@pytest.mark.parametrize("text", ["alice", "a:b/c@d", "!", "~" * 128])
def test_a_tenants_or_identitys_id_is_what_better_iam_made_it(text: str) -> None:
    assert ids.opaque(text, "tenantId") == text


@pytest.mark.parametrize("text", ["", "a b", "a\n", "ü", "\x7f", "x" * 129])
def test_an_opaque_id_has_no_spaces_and_an_end(text: str) -> None:
    with pytest.raises(errors.Invalid):
        ids.opaque(text, "tenantId")


@pytest.mark.parametrize("text", [" ", "job 1", "~" * 255])
def test_an_idempotency_key(text: str) -> None:
    assert ids.idempotency_key(text) == text


@pytest.mark.parametrize("text", [None, "", "a\tb", "a\n", "ü", "x" * 256])
def test_what_is_no_idempotency_key_is_refused_by_the_headers_name(text: str | None) -> None:
    with pytest.raises(errors.Invalid) as refused:
        ids.idempotency_key(text)
    assert refused.value.field == "Idempotency-Key"
