"""Whatever is changed in an export or in a checkpoint that was kept is found, and named where it is (api.md §6)."""

import json
from typing import Any

import pytest

from exports import busy, checked, covered, exported, signed
from given import Plane


def lines(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def told(content: bytes, **given: Any) -> list[str]:
    verdict = checked(content, **given)
    assert not verdict.good
    return [str(fault) for fault in verdict.faults.told]


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def named(content: bytes, at: int, bit: int) -> bool:
    """Whether a flipped bit is found in its own line; a byte that becomes a newline, or was one, is in two."""
    number = content.count(b"\n", 0, at) + 1
    return bool({fault.line for fault in checked(flipped(content, at, bit)).faults.told} & {number, number + 1})


@pytest.mark.parametrize(("tenant", "first"), [("acme", 2), (None, 20)])
def test_each_flipped_bit_of_an_export_is_found_and_its_line_named(
    plane: Plane, tenant: str | None, first: int
) -> None:
    """One event, with the consistency with an earlier checkpoint: each bit of a tenant's. The rest in samples."""
    busy(plane)
    small = exported(plane, tenant, first=first, limit=1, since=7)
    assert checked(small).good
    bits = 8 if tenant else 1
    assert [(at, bit) for at in range(len(small)) for bit in range(bits) if not named(small, at, bit)] == []
    large = exported(plane, tenant)
    assert [at for at in range(0, len(large), 29) if not named(large, at, at % 8)] == []


def test_each_flipped_bit_of_a_checkpoint_that_was_kept_is_found(plane: Plane) -> None:
    busy(plane)
    kept = signed(plane)
    content = exported(plane, note=kept, limit=1)
    assert checked(content, kept).kept_proved
    raw = kept.encode()
    for at in range(len(raw)):
        for bit in range(8):
            found = checked(content, flipped(raw, at, bit).decode("utf-8", "surrogateescape")).faults.told
            assert [fault.line for fault in found] == [0], (at, bit, [str(one) for one in found])


def test_lines_that_are_removed_swapped_doubled_or_cut_off_are_named(plane: Plane) -> None:
    busy(plane)
    content = exported(plane)
    all_ = lines(content)
    two = [b"".join(all_[at : at + 2]) for at in range(1, len(all_) - 1, 2)]
    head, end = all_[0], all_[-1]

    def joined(*events: bytes) -> bytes:
        return head + b"".join(events) + end

    assert joined(*two) == content
    assert "line 4 (sequence 3" in told(joined(two[0], *two[2:]))[0], "removed"
    assert "sequence: is 3 where 2 is due" in told(joined(two[0], two[2], two[1], *two[3:]))[0], "swapped"
    assert "sequence: is 2 where 3 is due" in told(joined(*two[:2], two[1], *two[2:]))[0], "doubled"
    assert "events came" in told(joined(*two[:-1]))[0], "its last removed"
    assert "its end is missing" in told(head + b"".join(two))[0]
    assert "cut off" in told(content[:-20])[0]
    assert "after the end" in told(content + two[0])[0]
    assert "proves this event" in told(head + all_[1] + b"".join(all_[3:]))[0], "a proof removed"
    assert "proves no event" in told(head + all_[1] + all_[2] + all_[2] + b"".join(all_[3:]))[0], "a proof doubled"
    assert "no header" in told(b"".join(all_[1:]))[0]


def test_leaves_that_are_removed_or_swapped_are_named(plane: Plane) -> None:
    busy(plane)
    all_ = lines(exported(plane, None))
    assert "index: is 4 where 3 is due" in told(b"".join([*all_[:4], *all_[5:]]))[0]
    assert "index: is 4 where 3 is due" in told(b"".join([*all_[:4], all_[5], all_[4], *all_[6:]]))[0]


def test_an_event_rewritten_with_all_its_hashes_does_not_come_to_the_signed_root(plane: Plane) -> None:
    """Who forges a line makes its sums right too; the tree is what they cannot."""
    busy(plane)
    all_ = lines(exported(plane, None))
    row = json.loads(all_[5])
    row["stream"] = "site_forged"
    found = told(b"".join([*all_[:5], json.dumps(row, separators=(",", ":")).encode() + b"\n", *all_[6:]]))
    assert any("root: the lines add up to" in one or "hash: is" in one for one in found)


def test_the_key_of_another_is_not_the_key(plane: Plane, tmp_path: Any) -> None:
    from adapters import audit_key

    busy(plane)
    content = exported(plane)
    theirs = audit_key.Signer(audit_key.read_or_make(tmp_path / "other.key"), "elsewhere").key.vkey
    assert checked(content, vkey=plane.wired.evidence.key).good
    assert any("vkey: is" in one for one in told(content, vkey=theirs))
    assert "no log" not in told(content, vkey="nonsense")[0]
    assert told(content, kept="nonsense")[0].startswith("the checkpoint file: note:")


HOSTILE = (
    b"",
    b"\n",
    b"{}\n",
    b"null\n",
    b"[" * 100_000 + b"\n",
    b'{"line":"header"}\n',
    b'{"line":"header","format":"better-compute-audit/2","scope":"tenant","first":1,"count":0,"vkey":"","checkpoint":""}\n',
    b'{"line":"header","format":"better-compute-audit/1","scope":"fleet","first":-1,"count":-5,"vkey":"a+b+c",'
    b'"checkpoint":"x\\n\\n\\u2014 a b\\n","since":{"size":-3,"root":"","proof":"zz","sum":""},"fill":"0g"}\n',
    b"\xff\xfe\x00\n",
)


@pytest.mark.parametrize("hostile", range(len(HOSTILE)))
def test_what_is_no_export_at_all_is_said_to_be_none(hostile: int) -> None:
    assert told(HOSTILE[hostile])


EVENTS = (
    b"[]\n",
    b"[" * 100_000 + b"\n",
    b'{"sequence":1e400}\n',
    b'{"sequence":null,"metadata":[]}\n',
    b'{"line":"proof"}\n',
    b'{"line":"proof","of":1,"index":-1}\n',
    b'{"line":"proof","of":2,"index":99999999999999999999,"storedBase64":"!"}\n',
    b'{"line":"end","lines":1,"sha256":""}\n',
    b'{"line":"leaf"}\n',
)


@pytest.mark.parametrize("tenant", ["acme", None])
def test_hostile_lines_are_faults_and_never_crash(plane: Plane, tenant: str | None) -> None:
    covered(plane)
    plane.acme.ok("POST", "/v1/projects", {"name": "p"})
    all_ = lines(exported(plane, tenant))
    for hostile in EVENTS:
        for at in range(1, min(len(all_), 6)):
            told(b"".join([*all_[:at], hostile, *all_[at:]]))
            told(b"".join([*all_[:at], hostile, *all_[at + 1 :]]))


@pytest.mark.parametrize("depth", [100, 300, 480, 700, 990])
@pytest.mark.parametrize("field", ["actorId", "metadata.requestId", "sessionContext"])
def test_values_nested_deep_are_faults_and_never_crash(plane: Plane, field: str, depth: int) -> None:
    plane.acme.ok("POST", "/v1/projects", {"name": "p"})
    all_ = lines(exported(plane))
    event = json.loads(all_[1])
    outer, _, inner = field.rpartition(".")
    (event[outer] if outer else event)[inner] = "@"
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    raw = json.dumps(event, separators=(",", ":"), sort_keys=True).encode().replace(b'"@"', nested)
    assert told(b"".join([all_[0], raw, b"\n", *all_[2:]]))
