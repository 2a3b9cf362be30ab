"""A delivery counts if it is signed just now, and once; the vectors are Better IAM's own (iam.md §18)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.iam import tokens
from adapters.iam.better.webhook import Receiver, verified
from iam_server.hooks import delivery, event

FILE = Path(__file__).parents[2] / "domain" / "iam-protocol-vectors.jsonl"
VECTORS = [json.loads(line) for line in FILE.read_text().splitlines()]
HOOKS = [vector for vector in VECTORS if vector["kind"] == "webhook"]


@pytest.mark.parametrize("vector", HOOKS, ids=[vector["name"] for vector in HOOKS])
def test_every_signature_vector(vector: dict[str, Any]) -> None:
    given = vector["input"]
    asked = ([given["secret"]], given["body"].encode(), str(given["timestamp"]), given["signature"], given["now"])
    assert verified(*asked, given.get("toleranceSeconds", 300)) is vector["valid"]


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["kind"] == "token"])
def test_every_token_vector(vector: dict[str, Any]) -> None:
    assert tokens.kind_of(vector["token"]) == vector["type"]


def test_while_a_secret_is_rotated_both_sign() -> None:
    raw, headers = delivery(event("webhook:ping"), "new")
    timestamp, signature = headers["x-better-iam-timestamp"], headers["x-better-iam-signature"]
    now = int(timestamp) * 1000
    assert verified(["old", "new"], raw, timestamp, signature, now)
    assert verified(["new", "old"], raw, timestamp, signature, now)
    assert not verified(["old"], raw, timestamp, signature, now)
    assert not verified([], raw, timestamp, signature, now)


@pytest.mark.parametrize("timestamp", ["", "-1", "1e9", "٣", "1790000000.5", "9" * 13, "1790000000\n", " 1790000000"])
def test_a_timestamp_is_a_number_of_seconds(timestamp: str) -> None:
    assert not verified(["s"], b"{}", timestamp, "v1=" + "0" * 64, 1_790_000_000_000)


class Heard:
    def __init__(self) -> None:
        self.resyncs = 0
        self.distrusted: list[int] = []
        self.receiver = Receiver(self._resync, self.distrusted.append)

    def _resync(self) -> None:
        self.resyncs += 1

    def take(self, *events: dict[str, Any]) -> list[bool]:
        return [self.receiver.receive(json.dumps(one).encode(), 5) for one in events]


@pytest.mark.parametrize(
    ("type", "resyncs", "distrusted"),
    [
        ("tenant:suspend", 1, []),
        ("iam:tenants:create", 1, []),
        ("identity:suspend", 0, [5]),
        ("agent:suspend", 0, [5]),
        ("delegation:revoke", 0, [5]),
        ("webhook:ping", 0, []),
        ("tenants-of-mine:create", 0, []),
    ],
)
def test_what_an_event_leads_to(type: str, resyncs: int, distrusted: list[int]) -> None:
    heard = Heard()
    assert heard.take(event(type)) == [True]
    assert (heard.resyncs, heard.distrusted) == (resyncs, distrusted)


def test_an_event_that_comes_again_is_nothing_new() -> None:
    heard = Heard()
    once = event("tenant:suspend")
    assert heard.take(once, once) == [True, False]
    assert heard.resyncs == 1


def test_a_gap_in_a_tenants_sequence_means_that_anything_may_have_happened() -> None:
    heard = Heard()
    heard.take(*(event("role:update", sequence=number) for number in (7, 8)))
    heard.take(event("role:update", "acme", sequence=50), event("role:update"))
    assert heard.resyncs == 0
    heard.take(event("role:update", sequence=10))
    assert (heard.resyncs, heard.distrusted) == (1, [5])
    heard.take(event("role:update", sequence=9), event("role:update", sequence=11))
    assert heard.resyncs == 1, "late is no gap"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id": 1}', b"\xff", b"[" * 50_000])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        Heard().receiver.receive(body, 5)


def test_what_is_remembered_is_bounded() -> None:
    heard = Heard()
    first = event("webhook:ping")
    heard.take(first, *(event("webhook:ping", f"t{number}", sequence=1) for number in range(10_001)))
    assert heard.take(first) == [True]
