"""Whatever comes, the answer is a problem that names the field, never a fault of ours, and nothing is written."""

import copy
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from adapters.http.decode import Shape
from adapters.registry import OPERATIONS
from given import RESOLVER, SEVEN, Client, Plane, inventory
from wellformed import REQUESTS, fill, fresh, things

NO_ROW = sorted(set(OPERATIONS) - set(REQUESTS))
assert NO_ROW == [], f"tests/wellformed.py: REQUESTS has no row for {', '.join(NO_ROW)}"

COMMANDS = sorted(name for name, operation in OPERATIONS.items() if not operation.in_url and not operation.content)
"""And what only looks: whatever has a body of JSON."""
QUERIES = sorted(name for name, operation in OPERATIONS.items() if operation.in_url)

SURROGATE = "\ud800"
TEXTS = {"gpuModel", "identityId", "resource", "requestId", "agentId", "delegationId", "reason", "action", "type"} | {
    "name",
    "rack",
    "text",
    "condition",
    "imageVersion",
    "tenantId",
}
"""Parameters that take texts as these are: names that others give, and patterns."""
HUGE = "@1e400"
"""Stands for the number, which Python would send as Infinity."""
LEAVES = ("a\x00b", SURROGATE, 2**63, -(2**63) - 1, HUGE, {"$ne": 1}, [[]])
"""What no field with a single value takes."""


def spots(value: Any, path: str = "") -> Iterator[str]:
    """Every place in a body that holds a single value."""
    match value:
        case dict():
            for name, member in value.items():
                yield from spots(member, f"{path}.{name}" if path else name)
        case list():
            for index, member in enumerate(value):
                yield from spots(member, f"{path}[{index}]")
        case _:
            yield path


def put(body: Any, path: str, value: Any) -> Any:
    """A copy of the body with another value in one place."""
    changed = copy.deepcopy(body)
    at, keys = changed, path.replace("[", ".[").split(".")
    steps: list[Any] = [int(key[1:-1]) if key.startswith("[") else key for key in keys]
    for step in steps[:-1]:
        at = at[step]
    at[steps[-1]] = value
    return changed


def send(client: Client, name: str, path: str, raw: bytes, **headers: str) -> Any:
    headers = {"content_type": "application/json", "Idempotency_Key": fresh()} | headers
    return client.raw(OPERATIONS[name].verb, path, raw, **headers)


def credential(name: str, made: dict[str, str]) -> dict[str, str]:
    """What opens an operation that no token of an identity opens; `made` is a join token."""
    bearer = {"join-token": made["token"], "resolver": RESOLVER}.get(OPERATIONS[name].credential)
    return {} if bearer is None else {"authorization": f"Bearer {bearer}"}


def encoded(body: Any) -> bytes:
    return json.dumps(body).replace(f'"{HUGE}"', "1e400").encode()


def problem(answer: Any, what: Any) -> dict[str, Any]:
    assert 400 <= answer.status_code < 500, (what, answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json", what
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    assert "Traceback" not in answer.text
    assert "psycopg" not in answer.text
    return found


def named(found: dict[str, Any]) -> str:
    """The field that a problem names; what is no JSON has none."""
    return "" if found["code"] == "MALFORMED" else str(found["errors"][0]["field"])


@pytest.fixture
def known(plane: Plane) -> dict[str, str]:
    return things(plane)


def written(plane: Plane, head: int) -> list[Any]:
    """What came into the log since, but for records of refusals and what agents and time bring about."""
    sql = """
    SELECT originator_id, topic FROM stored_events
    WHERE notification_id > %s AND topic NOT LIKE 'admission.refus%%'
      AND topic NOT IN ('reservation.binding_started.1', 'reservation.ending.1', 'reservation.stays.1')
    """
    return plane.rows(sql, head)


def test_no_place_of_any_body_takes_what_is_of_another_kind(plane: Plane, known: dict[str, str]) -> None:
    made = plane.root.ok("POST", "/v1/join-tokens", {"siteId": known["site"], "trust": "platform"})
    head = plane.head()
    for name in COMMANDS:
        path, template = REQUESTS[name]
        client = plane.root
        headers = credential(name, made)
        body = fill(template, known)
        for spot in spots(body):
            for bad in LEAVES:
                found = problem(send(client, name, fill(path, known), encoded(put(body, spot, bad)), **headers), spot)
                field = named(found)
                assert field in ("", "body") or spot.startswith(field) or field.startswith(spot), (
                    name,
                    spot,
                    bad,
                    found,
                )
                assert found["code"] in ("INVALID", "MALFORMED"), (name, spot, bad, found)
        for unknown in ("colour", "id\x00", "__proto__"):
            found = problem(send(client, name, fill(path, known), encoded(body | {unknown: 1}), **headers), unknown)
            assert found["status"] == 422, (name, unknown)
    assert written(plane, head) == []


ODD = ("é" * 44, "\u202e", "\U0001f600", "١٢", "x" * 10_000, "", "\x7f\x1b[0m", 0, -1, None, True, 2**63 - 1, 0.5)
"""What some field may take; whether it does or not, it is no fault of ours."""


def test_nothing_odd_in_any_place_is_a_fault(plane: Plane, known: dict[str, str]) -> None:
    for name in COMMANDS:
        path, template = REQUESTS[name]
        made = plane.root.ok("POST", "/v1/join-tokens", {"siteId": known["site"], "trust": "platform", "uses": 1000})
        headers = credential(name, made)
        for spot in spots(fill(template, known)):
            for odd in ODD:
                body = encoded(put(fill(template, known), spot, odd))
                answer = send(plane.root, name, fill(path, known), body, **headers)
                assert answer.status_code < 500, (name, spot, odd, answer.text)


BROKEN = {
    "nothing": b"",
    "truncated": b'{"name": "no',
    "no object": b"[]",
    "text": b'"x"',
    "null": b"null",
    "not UTF-8": b'{"name": "\xff"}',
    "twice": b'{"name": "a", "name": "b"}',
    "deep": b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 200 + b"1" + b"}" * 200,
    "NaN": b'{"name": NaN}',
    "huge number": b'{"name": ' + b"9" * 5000 + b"}",
    "surrogate in a name": b'{"\\ud800": 1}',
}


def test_what_is_no_object_of_json_is_refused_everywhere(plane: Plane, known: dict[str, str]) -> None:
    head = plane.head()
    can_be_empty = {name for name in COMMANDS if not REQUESTS[name][1]} | {
        "sites.update",
        "pools.update",
        "nodes.release",
        "nodes.retire",
        "commands.cancel",
    }
    for what, raw in BROKEN.items():
        for name in COMMANDS:
            if what == "nothing" and name in can_be_empty:
                continue
            headers = credential(name, {"token": "bcjt_unknown"})
            found = problem(send(plane.root, name, fill(REQUESTS[name][0], known), raw, **headers), (what, name))
            wanted = {"UNAUTHENTICATED"} if name == "nodes.join" and what == "nothing" else set()
            assert found["code"] in {"INVALID", "MALFORMED"} | wanted, (what, name, found)
    assert written(plane, head) == []


def test_no_parameter_of_any_query_takes_what_is_of_another_kind(plane: Plane, known: dict[str, str]) -> None:
    for name in QUERIES:
        path, _, needed = fill(REQUESTS[name][0], known).partition("?")
        shape = Shape(OPERATIONS[name])
        for parameter in shape.rest:
            also = f"{needed}&" if needed and not needed.startswith(f"{parameter}=") else ""
            for bad in ("%00", "%ff", "%ED%A0%80", "9223372036854775808", "1e400", "nan", quote("é"), "-1", "["):
                kind = str(shape.types[parameter])
                answer = plane.root.get(f"{path}?{also}{parameter}={bad}")
                if answer.status_code == 200:
                    assert parameter in TEXTS, (name, parameter, bad, kind)
                    continue
                found = problem(answer, (name, parameter, bad))
                assert named(found) in ("", parameter, f"{parameter}[0]"), (name, parameter, bad, found)
        for wrong in ("colour=1", "limit=1&limit=2", "%ff=1", "&".join(f"a{n}=1" for n in range(200))):
            assert problem(plane.root.get(f"{path}?{wrong}"), name)["code"] == "MALFORMED"


IDS = ("x", "%00", "%ff", "node_", "RSV", "pool_01arz3ndektsv4rrffq69g5fav", "é", "a" * 5000, "%2e%2e%2fetc")


def test_no_path_takes_an_id_of_another_kind_case_or_length(plane: Plane, known: dict[str, str]) -> None:
    """O45."""
    head = plane.head()
    for name in sorted(OPERATIONS):
        path, body = REQUESTS[name]
        if "{" not in path.partition("?")[0]:
            continue
        own = known[path.partition("{")[2].partition("}")[0]]
        for bad in (*IDS, own.upper(), own[:-1], own + "0", own.replace("_", "_l", 1)[:-1]):
            at = path[: path.index("{")] + bad + path[path.index("}") + 1 :]
            raw = b"" if OPERATIONS[name].in_url else body if isinstance(body, bytes) else encoded(fill(body, known))
            kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
            found = problem(send(plane.root, name, at, raw, content_type=kind), (name, bad))
            assert found["status"] in (404, 405, 422), (name, bad, found)
    assert written(plane, head) == []


HEADERS = {
    "Idempotency_Key": ["", "é".encode("latin-1").decode("latin-1"), "a" * 256, "a\x00b", "a\tb"],
    "If_Match": ['"x"', "7", '"99999999999999999999"', '"-1"', '"1", "2"'],
    "content_type": ["text/plain", "application/json; charset=latin-1", "application/x-www-form-urlencoded"],
}


def test_a_header_that_cannot_be_is_refused(plane: Plane, known: dict[str, str]) -> None:
    head = plane.head()
    path, body = REQUESTS["reservations.create"]
    for header, values in HEADERS.items():
        for value in values:
            raw = encoded(fill(body, known))
            found = problem(send(plane.acme, "reservations.create", path, raw, **{header: value}), (header, value))
            assert found["status"] in (400, 412, 415, 422), (header, value)
            assert header != "Idempotency_Key" or named(found) == "Idempotency-Key", value
    assert written(plane, head) == []


def test_an_idempotency_key_that_cannot_be_is_refused_on_every_create(plane: Plane, known: dict[str, str]) -> None:
    for name in ("sites.create", "pools.create", "joinTokens.create", "projects.create"):
        path, body = REQUESTS[name]
        answer = send(plane.root, name, path, encoded(fill(body, known)), Idempotency_Key="a\x01")
        assert named(problem(answer, name)) == "Idempotency-Key"


RESERVATION = "reservations.create"
INSTANCE = "instances.create"
POOL = "pools.create"
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (RESERVATION, {"devices[0].count": 0, "scalars": {}}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": -1}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": 4097}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": 2**31 + 1}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": 1.5}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": "1"}, "devices[0].count"),
    (RESERVATION, {"devices[0].count": True}, "devices[0].count"),
    (RESERVATION, {"devices[0].class": "GPU"}, "devices[0].class"),
    (RESERVATION, {"devices[0].class": "node"}, "devices[0].class"),
    (RESERVATION, {"devices": []}, "devices"),
    (RESERVATION, {"devices[0].selector": "device.memoryGb >"}, "devices[0].selector"),
    (RESERVATION, {"devices[0].selector": "device.colour == 1"}, "devices[0].selector"),
    (RESERVATION, {"devices[0].selector": "'text'"}, "devices[0].selector"),
    (RESERVATION, {"devices[0].selector": " "}, "devices[0].selector"),
    (RESERVATION, {"devices[0].selector": "(" * 2000}, "devices[0].selector"),
    (RESERVATION, {"devices[0].selector": "[1].exists(x, x == 1)"}, "devices[0].selector"),
    (RESERVATION, {"durationSeconds": 0}, "durationSeconds"),
    (RESERVATION, {"durationSeconds": -60}, "durationSeconds"),
    (RESERVATION, {"durationSeconds": 59}, "durationSeconds"),
    (RESERVATION, {"durationSeconds": 366 * 86_400 + 1}, "durationSeconds"),
    (RESERVATION, {"startsAt": 1}, "startsAt"),
    (RESERVATION, {"startsAt": -1}, "startsAt"),
    (RESERVATION, {"startsAt": 2**53}, "startsAt"),
    (RESERVATION, {"nodes": 0}, "nodes"),
    (RESERVATION, {"nodes": 1025}, "nodes"),
    (RESERVATION, {"topology": {}}, "topology"),
    (RESERVATION, {"topology": {"pack": "a", "spread": "b"}}, "topology"),
    (RESERVATION, {"scalars": {"vcpu": -1}}, "scalars"),
    (RESERVATION, {"scalars": {"gpu": 1}}, "scalars"),
    (RESERVATION, {"binding": "instance"}, "binding"),
    (RESERVATION, {"projectId": "prj_1"}, "projectId"),
    (RESERVATION, {"labels": {"": "x"}}, "labels"),
    (RESERVATION, {"labels": {"k": "v" * 256}}, "labels"),
    (RESERVATION, {"labels": {str(n): "" for n in range(33)}}, "labels"),
    (RESERVATION, {"poolId": "POOL"}, "poolId"),
    (INSTANCE, {"name": "../../etc/passwd"}, "name"),
    (INSTANCE, {"name": ""}, "name"),
    (INSTANCE, {"kind": "VM"}, "kind"),
    (INSTANCE, {"poolId": "POOL"}, "poolId"),
    (INSTANCE, {"flavorId": "flv_1"}, "flavorId"),
    (INSTANCE, {"flavorId": "rsv"}, "flavorId"),
    (INSTANCE, {"imageId": "img_../x"}, "imageId"),
    (INSTANCE, {"reservationId": "rsv_"}, "reservationId"),
    (INSTANCE, {"projectId": "prj_1"}, "projectId"),
    (INSTANCE, {"onNodeLoss": "wait"}, "onNodeLoss"),
    (INSTANCE, {"maxPendingSeconds": -1}, "maxPendingSeconds"),
    (INSTANCE, {"sshKeys": ["ssh-ed25519 AAAA"] * 33}, "sshKeys"),
    (INSTANCE, {"sshKeys": ["ssh-ed25519 AAAA\nssh-rsa AAAA"]}, "sshKeys[0]"),
    (INSTANCE, {"sshKeys[0]": "x" * 4097}, "sshKeys[0]"),
    (INSTANCE, {"userData": "a"}, "userData"),
    (INSTANCE, {"userData": "A" * 87_388}, "userData"),
    (INSTANCE, {"labels": {"": "x"}}, "labels"),
    (POOL, {"name": "Upper"}, "name"),
    (POOL, {"name": "-a"}, "name"),
    (POOL, {"name": "a\n"}, "name"),
    (POOL, {"gpuModel": "h100"}, "gpuModel"),
    (POOL, {"gpuMemoryGb": 0}, "gpuMemoryGb"),
    (POOL, {"sharing": "exclusive"}, "policy.migLayout"),
    (POOL, {"policy.migLayout": []}, "policy.migLayout"),
    (POOL, {"policy.migLayout[1]": SEVEN[0]}, "policy.migLayout[1]"),
    (POOL, {"policy.migLayout[0].profile": "9g.10gb"}, "policy.migLayout[0]"),
    (POOL, {"policy.migLayout[0].start": 8}, "policy.migLayout[0].start"),
    (POOL, {"policy.migLayout": [{"profile": "3g.40gb", "start": 1}]}, "policy.migLayout[0]"),
    (POOL, {"gpuModel": "L4", "gpuMemoryGb": 24}, "policy.migLayout[0]"),
    (POOL, {"policy.sharing": {"replicas": 2}}, "policy.sharing.replicas"),
    (POOL, {"policy.overcommit.vcpu": 65}, "policy.overcommit.vcpu"),
    (POOL, {"policy.disruptionBudget": 1.5}, "policy.disruptionBudget"),
    (POOL, {"policy.tenantRoot": True}, "policy.tenantRoot"),
    (POOL, {"agent": "none"}, "agent"),
    (POOL, {"class": "provider"}, "providerAccountId"),
    (POOL, {"class": "provider", "providerAccountId": "mine"}, "providerAccountId"),
    (POOL, {"siteId": "site_oops"}, "siteId"),
    ("sites.create", {"iamRegion": "EU North"}, "iamRegion"),
    ("sites.create", {"kind": "moon"}, "kind"),
    ("pools.offer", {"quota": {"gpus": 1}}, "quota"),
    ("pools.offer", {"quota": {"gpu": -1}}, "quota"),
    ("pools.offer", {"priority": 1001}, "priority"),
    ("projects.create", {"name": "Upper"}, "name"),
    ("projects.create", {"labels": {"k": "v" * 256}}, "labels"),
    ("quotas.set", {"limits": {"gpus": 1}}, "limits"),
    ("quotas.set", {"limits": {"gpu": -1}}, "limits"),
    ("quotas.set", {"limits": None}, "limits"),
    ("budgets.set", {"gpuHours": -1}, "gpuHours"),
    ("budgets.set", {"gpuHours": "1"}, "gpuHours"),
    ("budgets.set", {"gpuHours": 1e300}, "gpuHours"),
    ("budgets.set", {"from": 1}, "from"),
    ("budgets.set", {"until": 86_400_001}, "until"),
    ("budgets.set", {"from": 86_400_000, "until": 86_400_000}, "until"),
    ("joinTokens.create", {"uses": 0}, "uses"),
    ("joinTokens.create", {"expiresInSeconds": 10**9}, "expiresInSeconds"),
    ("nodes.cordon", {"reason": ""}, "reason"),
    ("nodes.cordon", {"reason": "x" * 256}, "reason"),
    ("nodes.maintain", {"on": "yes"}, "on"),
    ("nodes.label", {"labels": {"k": 1}}, "labels"),
    ("nodes.assign", {"role": "king"}, "role"),
]


def test_what_cannot_be_names_its_field(plane: Plane, known: dict[str, str]) -> None:
    """O03, and the rest of "Bad input"."""
    head = plane.head()
    for name, changes, field in WRONG:
        path, template = REQUESTS[name]
        body = fill(template, known)
        for place, value in changes.items():
            body = put(body, place, value)
        client = plane.acme if name == RESERVATION else plane.root
        found = problem(send(client, name, fill(path, known), encoded(body)), changes)
        assert (found["status"], found["code"]) == (422, "INVALID"), (changes, found)
        assert found["errors"][0]["field"].startswith(field), (changes, found)
    assert written(plane, head) == []


INVENTORIES: list[tuple[dict[str, Any], str]] = [
    ({"gpus[1].uuid": inventory()["gpus"][0]["uuid"]}, "inventory.gpus[1].uuid"),
    ({"gpus[1].uuid": inventory()["gpus"][0]["uuid"].lower().replace("gpu-", "GPU-", 1)}, "inventory.gpus[1].uuid"),
    ({"gpus[0].uuid": "GPU-1"}, "inventory.gpus[0].uuid"),
    ({"nics[0].mac": "zz:00:00:00:00:00"}, "inventory.nics[0].mac"),
    ({"schema": "NodeInventory/v2"}, "inventory"),
    ({"gpus": None}, "inventory.gpus"),
    ({"gpus[0].memoryMiB": -1}, "inventory.gpus[0].memoryMiB"),
    ({"gpus[0].name": "a\x01"}, "inventory.gpus[0].name"),
    ({"cpu.threads": 2**40}, "inventory.cpu.threads"),
    ({"colour": 1}, "inventory"),
]


def test_an_inventory_that_cannot_be_names_its_field_and_uses_no_token(plane: Plane) -> None:
    made = plane.root.ok("POST", "/v1/join-tokens", {"siteId": plane.site(), "trust": "platform"})
    head = plane.head()
    bearer = {"authorization": f"Bearer {made['token']}"}
    body = {"inventory": inventory(), "publicKey": "A" * 43 + "=", "name": "n1"}
    for changes, field in INVENTORIES:
        found = inventory()
        for place, value in changes.items():
            found = put(found, place, value)
        answer = send(plane.nobody, "nodes.join", "/v1/nodes/join", encoded(body | {"inventory": found}), **bearer)
        shown = problem(answer, changes)
        assert (shown["status"], shown["errors"][0]["field"].startswith(field)) == (422, True), (changes, shown)
    for key in ("A" * 44, "A" * 42 + "==", "é" * 44, ""):
        answer = send(plane.nobody, "nodes.join", "/v1/nodes/join", encoded(body | {"publicKey": key}), **bearer)
        assert named(problem(answer, key)) == "publicKey"
    whole = encoded(body)
    cut = send(plane.nobody, "nodes.join", "/v1/nodes/join", whole[: len(whole) // 2], **bearer)
    assert problem(cut, "cut")["code"] == "MALFORMED"
    for address in ("a b", "x\n", "<script>"):
        answer = send(plane.nobody, "nodes.join", "/v1/nodes/join", encoded(body | {"address": address}), **bearer)
        assert named(problem(answer, address)) == "address"
    assert plane.head() == head
    assert send(plane.nobody, "nodes.join", "/v1/nodes/join", whole, **bearer).status_code == 201


def test_every_stored_text_field_was_tried() -> None:
    """A new field of a command must be in its well-formed request, or nothing hostile is sent to it."""
    left_out = {
        "pools.create.providerAccountId",
        "reservations.create.projectId",
        "reservations.preview.projectId",
        "instances.create.projectId",
        "instances.create.reservationId",
        "nodes.maintain.plan",
    }
    for name in COMMANDS:
        _, body = REQUESTS[name]
        operation = OPERATIONS[name]
        in_path = set(Shape(operation).path.values())
        fields = {field.encode_name for field in msgspec.structs.fields(operation.request)}
        missing = {f"{name}.{field}" for field in fields - in_path - set(body)}
        assert missing <= left_out, name
