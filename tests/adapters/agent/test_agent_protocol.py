"""Every message survives the wire, in the words of api.md §4; a signature says one thing only."""

import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adapters.agent import protocol
from domain.node_spec import Allocation

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
CHALLENGE = protocol.Challenge("nonce", "plane-a")
ON_THE_WIRE = [
    (
        protocol.Hello("node_1", "b", "0.1", 7, "sig"),
        {"type": "hello", "nodeId": "node_1", "bootId": "b", "agentVersion": "0.1", "clock": 7, "signature": "sig"},
    ),
    (protocol.Heartbeat(), {"type": "heartbeat"}),
    (
        protocol.Status(3, {"alloc_1": "prepared", "alloc_2": "failed"}),
        {"type": "status", "observedGeneration": 3, "items": {"alloc_1": "prepared", "alloc_2": "failed"}},
    ),
    (CHALLENGE, {"type": "challenge", "nonce": "nonce", "audience": "plane-a"}),
    (
        protocol.Welcome("sess_1", 4),
        {"type": "welcome", "sessionId": "sess_1", "epoch": 4, "ttlSeconds": 40},
    ),
    (
        protocol.Spec(2, (Allocation("alloc_1", "rsv_1", ("nvidia.com/gpu=GPU-1",)),)),
        {
            "type": "spec",
            "generation": 2,
            "allocations": [{"id": "alloc_1", "reservationId": "rsv_1", "cdiDevices": ["nvidia.com/gpu=GPU-1"]}],
        },
    ),
    (protocol.Superseded("newer"), {"type": "superseded", "reason": "newer"}),
]


@pytest.mark.parametrize(("message", "wire"), ON_THE_WIRE, ids=lambda case: type(case).__name__)
def test_a_message_reads_as_it_was_written(message, wire):
    text = protocol.encode(message)
    assert json.loads(text) == wire
    read = protocol.from_agent if isinstance(message, protocol.FromAgent) else protocol.from_plane
    assert read(text) == message


def test_an_inventory_travels_as_the_document_it_is():
    sent = protocol.Inventory(msgspec.Raw(b'{"schema":"NodeInventory/v1"}'))
    received = protocol.from_agent(protocol.encode(sent))
    assert isinstance(received, protocol.Inventory)
    assert bytes(received.inventory) == b'{"schema":"NodeInventory/v1"}'


def test_fields_of_a_later_version_are_ignored():
    assert protocol.from_agent('{"type":"heartbeat","mood":"fine"}') == protocol.Heartbeat()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"type":"order"}',
        '{"type":"welcome","sessionId":"s","epoch":1,"ttlSeconds":40}',
        '{"type":"status","observedGeneration":-1,"items":{}}',
        '{"type":"status","observedGeneration":1e99,"items":{}}',
        '{"type":"status","observedGeneration":1,"items":{"a":"lost"}}',
        '{"type":"status","observedGeneration":1,"items":{"":"failed"}}',
        '{"type":"heartbeat","clock":-1}',
        '{"type":"heartbeat","clock":9007199254740992}',
        '{"type":"heartbeat","clock":1' + "0" * 400 + "}",
        '{"type":"hello","nodeId":"n","bootId":"b","agentVersion":"1","signature":"s","clock":-1}',
        '{"type":"hello","nodeId":"n","bootId":"b","agentVersion":"1","signature":"s","clock":1' + "0" * 400 + "}",
        '{"type":"inventory","inventory":' + "[" * 100_000,
        '{"type":"heartbeat","x":"\ud800"}',
    ],
)
def test_what_is_no_message_is_malformed(text):
    with pytest.raises(protocol.Broken) as broken:
        protocol.from_agent(text)
    assert broken.value.code == protocol.MALFORMED


def test_only_an_inventory_may_pass_256_kib():
    filler = "x" * 300_000
    assert protocol.from_agent('{"type":"inventory","inventory":{"a":"' + filler + '"}}')
    with pytest.raises(protocol.Broken) as broken:
        protocol.from_agent('{"type":"heartbeat","x":"' + filler + '"}')
    assert broken.value.code == protocol.TOO_BIG


@pytest.mark.parametrize("size", [protocol.MAX_INVENTORY, protocol.MAX_INVENTORY // 3])
def test_nothing_passes_the_limit_counted_in_bytes(size):
    with pytest.raises(protocol.Broken) as broken:
        protocol.from_agent('{"type":"inventory","inventory":"%s"}' % ("€" * size))
    assert broken.value.code == protocol.TOO_BIG


def signed_hello(key=KEY, challenge=CHALLENGE, node_id="node_1"):
    return protocol.Hello("node_1", "b", "0.1", 7, protocol.sign(key, challenge, node_id))


def test_the_holder_of_the_key_is_known_by_its_signature():
    assert protocol.verify(protocol.public_key(KEY), CHALLENGE, signed_hello())


@pytest.mark.parametrize(
    "hello",
    [
        signed_hello(key=Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))),
        signed_hello(challenge=protocol.Challenge("another", "plane-a")),
        signed_hello(challenge=protocol.Challenge("nonce", "plane-b")),
        signed_hello(node_id="node_2"),
        protocol.Hello("node_1", "b", "0.1", 7, "not base64!"),
        protocol.Hello("node_1", "b", "0.1", 7, "AAAA"),
    ],
    ids=["key", "nonce", "audience", "node", "no base64", "short"],
)
def test_a_signature_of_anything_else_is_none(hello):
    assert not protocol.verify(protocol.public_key(KEY), CHALLENGE, hello)


@pytest.mark.parametrize("key", ["", "!", "AAAA"])
def test_a_node_without_a_proper_key_lets_nobody_in(key):
    assert not protocol.verify(key, CHALLENGE, signed_hello())


def test_no_two_triples_share_the_signed_bytes():
    assert protocol.signed("ab", "c", "d") != protocol.signed("a", "bc", "d")
    assert protocol.signed("n", "a", "").startswith(b"better-compute bcd/v1 session\n\x00\x00\x00\x01n")
