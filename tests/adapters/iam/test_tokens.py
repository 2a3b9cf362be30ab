"""Tokens have Better IAM's form; the examples are its own protocol vectors."""

import json

import pytest

from adapters.iam import tokens

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


def test_a_token_in_a_text_is_blanked() -> None:
    line = json.dumps({"authorization": f"Bearer {KEY}", "path": "/v1/nodes"})
    redacted = tokens.redact(f"{line} {SES}")
    assert KEY[9:] not in redacted
    assert SES[9:] not in redacted
    assert "Bearer biam_key_[redacted]" in redacted
    assert "/v1/nodes" in redacted
