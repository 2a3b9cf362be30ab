"""An export proves itself: chain, tree, signature, and that nothing before an older checkpoint changed (api.md §6)."""

import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from domain import chain, export, export_report
from exports import busy, checked, covered, exported
from given import Client, Plane


def answered(client: Client, query: str = "") -> bytes:
    answer = client.get(f"/v1/audit/export{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/jsonl"
    return bytes(answer.content)


def events(content: bytes) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, content.splitlines()) if "sequence" in event]


def faults(content: bytes, **given: Any) -> list[str]:
    return [str(fault) for fault in checked(content, **given).faults.told]


def test_what_is_exported_verifies_with_nothing_else(plane: Plane) -> None:
    busy(plane)
    position = covered(plane)
    exports = {
        "acme": answered(plane.acme, f"?waitFor={position}"),
        "globex": answered(plane.globex),
        "platform": answered(plane.root),
        "fleet": answered(plane.auditor, "?scope=fleet"),
    }
    for name, content in exports.items():
        verdict = checked(content)
        assert verdict.good, (name, [str(fault) for fault in verdict.faults.told])
        assert verdict.checked == verdict.count > 0
        assert verdict.size == plane.rows("SELECT count(*) FROM stored_events")[0][0]


def test_better_iams_own_verifier_takes_an_export_as_it_is(plane: Plane) -> None:
    """It passes what has no sequence, and takes the rest as its own (iam.md §17)."""
    busy(plane)
    content = exported(plane)
    verdict = chain.verify(map(json.loads, content.splitlines()))
    assert (verdict.valid, verdict.first, verdict.unchained) == (True, 1, verdict.checked + 2)


def test_an_export_tells_nothing_of_another_tenant(plane: Plane) -> None:
    busy(plane)
    acme, globex = exported(plane).decode(), exported(plane, "globex").decode()
    assert "secret-of-globex" in globex
    assert "globex" not in acme
    assert "acme" not in globex.replace('"compute-reservation/', "")
    offers = [event for event in events(acme.encode()) if event["action"].startswith("offering.")]
    assert [event["actorId"] for event in offers] == ["platform"], "who there, is not acme's to know"
    proofs = {line["of"]: line for line in map(json.loads, acme.splitlines()) if line.get("line") == "proof"}
    assert "stored" not in proofs[offers[0]["sequence"]], "what is of two tenants is shown as its digest"
    assert any("stored" in proof for proof in proofs.values())


def test_bytes_that_were_taken_out_are_said_to_be_kept_back(plane: Plane) -> None:
    """Whoever makes an export can keep back bytes and say what he likes of the event: that much is never proved."""
    busy(plane)
    given = exported(plane)
    made, head = list[bytes](), chain.Head()
    for raw in given.splitlines(keepends=True):
        line = json.loads(raw)
        if "sequence" in line:
            if line["action"] == "compute:reservations:create":
                line["actorId"] = "somebody-else"
            head = chain.link(line, head)
            raw = export.event_line(line)
        elif line["line"] == "proof" and "somebody-else" in made[-1].decode():
            raw = export.line(replace(msgspec.json.decode(raw, type=export.Proof), stored=None))
        elif line["line"] == "end":
            heads = (export.Head(tenant_id="acme", at=head.sequence, hash=head.hash),)
            digest = sha256(b"".join(made)).hexdigest()
            raw = export.line(replace(msgspec.json.decode(raw, type=export.End), heads=heads, sha256=digest))
        made.append(raw)
    before, after = checked(given), checked(b"".join(made))
    assert after.good, faults(b"".join(made))
    assert after.stored < before.stored
    kept_back = after.count - after.stored
    assert any(
        said.startswith(f"what is said of {kept_back} events whose bytes the export keeps back")
        for said in export_report.unproved(after)
    )


def test_a_part_is_proved_as_the_whole_is(plane: Plane) -> None:
    busy(plane)
    covered(plane)
    whole = events(answered(plane.acme))
    parts, query = [], "?limit=3"
    for _ in range(len(whole)):
        content = answered(plane.acme, query)
        verdict = checked(content)
        assert verdict.good, faults(content)
        parts += events(content)
        if verdict.next is None:
            break
        query = f"?limit=3&fromSequence={verdict.next}"
    assert parts == whole
    later = answered(plane.auditor, "?scope=fleet&fromSize=20&limit=7")
    verdict = checked(later)
    assert (verdict.good, verdict.first, verdict.checked, verdict.next) == (True, 20, 7, 27), faults(later)
    end = answered(plane.acme, f"?fromSequence={len(whole) + 1}")
    assert (checked(end).good, events(end)) == (True, [])


def test_a_range_that_is_not_there_is_refused_before_a_byte_is_sent(plane: Plane) -> None:
    covered(plane)
    for client, query, field in (
        (plane.acme, "?fromSequence=9999", "fromSequence"),
        (plane.acme, "?since=99999", "since"),
        (plane.acme, "?fromSize=1", "fromSize"),
        (plane.auditor, "?scope=fleet&fromSize=99999", "fromSize"),
        (plane.auditor, "?scope=fleet&fromSequence=1", "fromSequence"),
    ):
        answer = client.get(f"/v1/audit/export{query}")
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == field
    assert plane.acme.get("/v1/audit/export?scope=fleet").status_code == 403
    behind = plane.acme.get(f"/v1/audit/export?waitFor={plane.head() + 1}")
    assert (behind.status_code, behind.json()["code"]) == (503, "PROJECTION_BEHIND")


def test_head_says_the_type_and_sends_nothing(plane: Plane) -> None:
    covered(plane)
    answer = plane.acme.call("HEAD", "/v1/audit/export")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "application/jsonl", b"")


def test_an_export_of_today_holds_with_the_checkpoint_of_yesterday(plane: Plane) -> None:
    busy(plane)
    covered(plane)
    kept = plane.acme.ok("GET", "/v1/audit/checkpoint")
    plane.acme.ok("POST", "/v1/projects", {"name": "later"})
    covered(plane)
    content = answered(plane.acme, f"?since={kept['size']}")
    verdict = checked(content, kept["note"], kept["vkey"])
    assert (verdict.good, verdict.kept_proved) == (True, True), faults(content, kept=kept["note"])
    without = faults(answered(plane.acme), kept=kept["note"])
    assert without == [
        f"the checkpoint file: size: is {kept['size']}, for which the export has no proof: export again with "
        f"--since {kept['size']}"
    ]
    fleet = checked(answered(plane.auditor, "?scope=fleet"), kept["note"])
    assert (fleet.good, fleet.kept_proved) == (True, True), "its leaves come to that size"
    newer = plane.acme.ok("GET", f"/v1/audit/checkpoint?since={kept['size']}")
    assert newer["since"]["root"] == kept["root"]
    assert newer["position"] == covered(plane)


@pytest.mark.parametrize("scope", ["tenant", "fleet"])
def test_the_server_checks_a_stretch_of_its_own(plane: Plane, scope: str) -> None:
    busy(plane)
    covered(plane)
    client = plane.auditor if scope == "fleet" else plane.acme
    whole = client.ok("GET", f"/v1/audit/verify?scope={scope}")
    assert (whole["valid"], whole["problems"], whole.get("next")) == (True, [], None)
    part = client.ok("GET", f"/v1/audit/verify?scope={scope}&limit=4")
    assert (part["checked"], part["next"]) == (4, 5 if scope == "tenant" else 4)
    if scope == "tenant":
        assert whole["head"]["sequence"] == whole["checked"]


def test_a_row_that_was_changed_is_named_by_sequence_position_and_field(plane: Plane) -> None:
    _, made = busy(plane)
    covered(plane)
    position = plane.store.history(made)[1].position
    with plane.wired.reads.connection() as connection:
        connection.execute("UPDATE stored_events SET recorded_at = 1 WHERE notification_id = %s", (position,))
    (problem,) = plane.acme.ok("GET", "/v1/audit/verify")["problems"][:1]
    assert problem["where"].endswith(f"position {position}")
    assert problem["field"] == "hash"
    fleet = plane.auditor.ok("GET", "/v1/audit/verify?scope=fleet")
    named = {(one["where"].partition("position ")[2], one["field"]) for one in fleet["problems"]}
    assert named >= {(str(position), "hash")}
