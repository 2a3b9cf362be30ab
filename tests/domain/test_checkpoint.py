"""Checkpoints against the examples of C2SP signed-note and tlog-checkpoint."""

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from domain import checkpoint

EXAMPLE = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa \
Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""
VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = checkpoint.Key("better-compute/log", PRIVATE.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
SAID = checkpoint.Checkpoint("better-compute/log", 7, bytes(range(32)))


def verify(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def test_the_example_of_the_specification_is_read():
    said = checkpoint.parse(EXAMPLE)
    assert (said.origin, said.size) == ("example.com/behind-the-sofa", 20852163)
    assert said.root.hex().startswith("0ac5186a91863e8e")


def test_the_example_key_is_read_written_and_verifies_its_note():
    key = checkpoint.key(VKEY)
    assert key.vkey == VKEY
    with pytest.raises(checkpoint.Unsound, match="a checkpoint reads"):  # the signature holds, the text is prose
        checkpoint.opened(NOTE, key, verify)
    with pytest.raises(checkpoint.Unsound, match="not good"):
        checkpoint.opened(NOTE.replace("example message", "exsample message"), key, verify)


def test_what_is_signed_is_opened_with_its_key_and_no_other():
    note = checkpoint.signed(SAID, KEY, PRIVATE.sign)
    assert checkpoint.opened(note, checkpoint.key(KEY.vkey), verify) == SAID
    with pytest.raises(checkpoint.Unsound, match="not signed by better-compute/other"):
        checkpoint.opened(note, checkpoint.Key("better-compute/other", KEY.public), verify)


def test_signatures_of_others_are_passed_over():
    note = checkpoint.signed(SAID, KEY, PRIVATE.sign)
    assert checkpoint.opened(note + EXAMPLE.splitlines()[-1] + "\n", KEY, verify) == SAID


def test_every_flipped_bit_of_a_note_is_found():
    note = checkpoint.signed(SAID, KEY, PRIVATE.sign).encode()
    for at in range(len(note) * 8):
        flipped = bytearray(note)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises((checkpoint.Unsound, UnicodeDecodeError)):
            checkpoint.opened(flipped.decode(), KEY, verify)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("", "blank line"),
        ("a\n1\n", "blank line"),
        (EXAMPLE.removesuffix("\n"), "ending in a newline"),
        (EXAMPLE.replace("20852163", "020852163"), "size in decimal"),
        (EXAMPLE.replace("20852163\n", ""), "its origin"),
        (EXAMPLE.replace("CsUY", "CsU"), "the root is not base64"),
        (EXAMPLE.replace("CsUYapGG", ""), "26 bytes"),
        (EXAMPLE.replace("sofa\n", "sofa\r\n"), "control characters"),
    ],
)
def test_what_is_no_checkpoint_says_why(broken, why):
    with pytest.raises(checkpoint.Unsound, match=why):
        checkpoint.parse(broken)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("example.com/foo", "base64|verifier key reads"),
        (VKEY.replace("530d903a", "530d903b"), "its id is 530d903b"),
        (VKEY.replace("AekyeRrm", "AukyeRrm"), "verifier key reads"),
    ],
)
def test_a_key_that_is_none_says_why(broken, why):
    with pytest.raises(checkpoint.Unsound, match=why):
        checkpoint.key(broken)
