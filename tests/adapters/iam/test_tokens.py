"""Tokens have Better IAM's form; the examples are its own protocol vectors."""

import json
from pathlib import Path

import pytest

from adapters import telemetry
from adapters.iam import tokens

VECTORS = Path(__file__).parents[2] / "domain/iam-protocol-vectors.jsonl"

SES = "biam_ses_ZeYLzCBuwN6xX0rFAtZcNtXnJ9x1mMXnvosA-EJABTMtwXzOw"
KEY = "biam_key_ziavcxEbiXBhwAyT_sel4GskwLktWxnEPF1fiJLPAaQu-7Enw"


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (SES, "ses"),
        (KEY, "key"),
        (SES[:-1] + "A", None),
        ("biam_foo_WU5RmuSZMSspQzt92Kl_8Gje_LqXVbbV0A6ExSTWewYYraPWg", None),
        (KEY + "A", None),
        (KEY[:-1], None),
        (KEY.upper(), None),
        ("Bearer " + KEY, None),
        (KEY + "\n", None),
        ("", None),
        ("a" * 43, None),
    ],
)
def test_only_a_right_checksum_makes_a_token(token: str, kind: str | None) -> None:
    assert tokens.kind_of(token) == kind


def test_a_minted_token_is_58_characters_and_never_the_same() -> None:
    one, other = tokens.mint(), tokens.mint()
    assert one != other
    assert len(one) == 58
    assert tokens.kind_of(one) == "key"
    assert tokens.kind_of(tokens.mint("dlg", lambda count: bytes(count))) == "dlg"


def test_a_token_is_stored_as_its_sha256() -> None:
    assert tokens.digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_every_token_of_the_protocol_is_told_from_garbage() -> None:
    lines = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]
    told = [line for line in lines if line["kind"] == "token"]
    assert len(told) == 18
    for line in told:
        assert tokens.kind_of(line["token"]) == line["type"], line


def test_a_token_of_any_form_and_any_other_credential_is_blanked_in_a_log() -> None:
    secrets = [tokens.mint(kind) for kind in ("ses", "key", "rol", "sts", "dlg")]
    secrets += [KEY[:-1] + "A", "bcjt_" + "x" * 43, "whsec_" + "y" * 32, "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl"]
    for secret in secrets:
        for text in (
            json.dumps({"authorization": f"Bearer {secret}"}),
            f"GET /v1/nodes?token={secret}&limit=1",
            f"GET /v1/nodes?q=Bearer%20{secret}",
            f"x{secret}",
            repr({"headers": [(b"authorization", f"Bearer {secret}".encode())]}),
        ):
            redacted = telemetry.redact(text)
            assert secret[12:] not in redacted, redacted
            assert "[redacted]" in redacted
            assert redacted.endswith(text.rpartition(secret)[2]), "and no more than that"
    assert telemetry.redact("GET /v1/tokens/biam HTTP") == "GET /v1/tokens/biam HTTP"
