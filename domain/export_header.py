"""The first line of an export: whose it is, the checkpoint it is proved against, and the one that a reader kept."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from domain import chain, checkpoint, cover, export, merkle
from domain.checkpoint import Checkpoint, Key, Unsound, Verify
from domain.event import Recorded
from domain.export import Header, Ours, Since
from domain.export_report import Verdict

Decode = Callable[[str, int, str, bytes, int, int], Recorded]
"""A row of the log as an event: stream, version, stored name and bytes, position, recordedAt. Raises ValueError."""

_NOTE_LINES: Final = 5


class Trust(Struct, frozen=True):
    """What a reader brings: how to verify and to decode, and, if there are any, a key and an earlier checkpoint."""

    verify: Verify
    decode: Decode
    vkey: str | None = None
    kept: str | None = None


class Known(Struct, frozen=True):
    """What the header comes to. `current` and `kept` are None where they could not be read."""

    header: Header
    current: Checkpoint | None
    kept: Checkpoint | None


def read(raw: bytes, trust: Trust, verdict: Verdict) -> Known | None:
    """Check the header line; None where there is nothing to go on with."""

    def fault(field: str, says: str) -> None:
        verdict.faults.add(1, "header", field, says)

    try:
        header = msgspec.json.decode(raw, type=Header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as wrong:
        fault("line", f"is no header of an audit export: {wrong}")
        return None
    if header.format != export.FORMAT:
        fault("format", f"is {header.format[:80]!r}; this program reads {export.FORMAT}")
        return None
    if (unsound := unsealed(header, raw)) is not None:
        fault(*unsound)
    verdict.scope, verdict.tenant_id = header.scope, header.tenant_id or ""
    verdict.first, verdict.count = header.first, header.count
    _check_range(header, fault)
    key = _key(header, trust, fault)
    current = None if key is None else _opened(header.checkpoint, key, trust, "checkpoint", fault)
    if current is not None:
        verdict.note = header.checkpoint
        verdict.origin, verdict.size, verdict.root = current.origin, current.size, current.root.hex()
    verdict.vkey = key.vkey if key else ""
    verdict.basis = "given" if trust.vkey is not None else "own"
    since = None if header.since is None else _since(header.since, current, fault)
    kept = _kept(trust, key, current, verdict)
    if kept is not None and current is not None:
        _compare(header, current, kept, since, verdict)
    return Known(header, current, kept)


def _check_range(header: Header, fault: Callable[[str, str], None]) -> None:
    """The first line's place, and that the chains before it are said as the scope wants them."""
    tenants = [head.tenant_id for head in header.heads]
    if header.count < 0:
        fault("count", f"is {header.count}, and cannot be negative")
    if header.scope == "fleet":
        if header.tenant_id is not None:
            fault("tenantId", "is given for an export of the fleet")
        if header.first < 0:
            fault("first", f"is {header.first}; leaves count from 0")
        if header.first == 0 and header.heads:
            fault("heads", "are given before the first leaf of all")
        if tenants != sorted(set(tenants)):
            fault("heads", "are not one a tenant, in order")
        return
    if header.first < 1:
        fault("first", f"is {header.first}; sequences count from 1")
    if tenants != [header.tenant_id]:
        fault("heads", f"are of {tenants[:5]}, and should be of {header.tenant_id!r} alone")
    elif header.heads[0].at != header.first - 1:
        fault("heads", f"is at sequence {header.heads[0].at}, before {header.first} it should be {header.first - 1}")
    elif header.first == 1 and header.heads[0].hash != chain.ORIGIN:
        fault("heads", f"says hash {header.heads[0].hash[:80]!r}; a chain begins behind 64 zeros")
    if header.fill:
        fault("fill", "is for exports of the fleet")


def _key(header: Header, trust: Trust, fault: Callable[[str, str], None]) -> Key | None:
    """The key that must have signed: the reader's own, else the one that the header names."""
    given = None
    if trust.vkey is not None:
        try:
            given = checkpoint.key(trust.vkey)
        except Unsound as wrong:
            fault("--key", str(wrong))
            return None
    try:
        named = checkpoint.key(header.vkey)
        if named.vkey != header.vkey:
            raise Unsound("it is not in its one form")
    except Unsound as wrong:
        fault("vkey", str(wrong))
        return given
    if given is not None and given != named:
        fault("vkey", f"is {named.vkey}, the key that was given is {given.vkey}")
        return given
    return named


def _opened(note: str, key: Key, trust: Trust, field: str, fault: Callable[[str, str], None]) -> Checkpoint | None:
    try:
        found = checkpoint.opened(note, key, trust.verify)
        if found.origin != key.name:
            raise Unsound(f"it is of {found.origin[:80]!r}, the key signs for {key.name!r}")
        if field == "checkpoint" and note.count("\n") != _NOTE_LINES:
            raise Unsound("it says more than a checkpoint and one signature, which nothing here vouches for")
    except (Unsound, UnicodeError) as wrong:
        fault(field, str(wrong))
        return None
    return found


def _since(since: Since, current: Checkpoint | None, fault: Callable[[str, str], None]) -> Since | None:
    """An earlier size that is proved to be the beginning of this one."""
    proof, root = export.bytes_of(since.proof), export.bytes_of(since.root)
    if proof is None:
        fault("since.proof", "is not lower-case hex of whole hashes")
    elif root is None or len(root) != merkle.HASH:
        fault("since.root", "is not one hash in lower-case hex")
    elif current is not None:
        steps = [proof[at : at + merkle.HASH] for at in range(0, len(proof), merkle.HASH)]
        if merkle.consistent(since.size, root, current.size, current.root, steps):
            return since
        fault(
            "since",
            f"does not prove that a tree of {since.size} leaves with root {since.root} is the beginning of the "
            f"checkpoint's {current.size} with root {current.root.hex()}",
        )
    return None


def _kept(trust: Trust, key: Key | None, current: Checkpoint | None, verdict: Verdict) -> Checkpoint | None:
    """The checkpoint that the reader kept, if it is one of this log and key."""
    if trust.kept is None or key is None:
        return None

    def fault(field: str, says: str) -> None:
        verdict.faults.add(0, "", field, says)

    kept = _opened(trust.kept, key, trust, "note", fault)
    if kept is None:
        return None
    if current is not None and kept.origin != current.origin:
        fault("origin", f"is {kept.origin!r}, the export is of {current.origin!r}")
        return None
    verdict.kept = kept.size
    if verdict.basis == "own":
        verdict.basis = "kept"
    return kept


def _compare(header: Header, current: Checkpoint, kept: Checkpoint, since: Since | None, verdict: Verdict) -> None:
    """Whether the kept tree is the beginning of the export's; one that its leaves come to is compared there."""
    if kept.size > current.size:
        says = f"is {kept.size}, later than the export's {current.size}: export again, or give an earlier checkpoint"
        verdict.faults.add(0, "", "size", says)
    elif kept.size == current.size or (since is not None and since.size == kept.size):
        compare_roots(kept, current.root.hex() if since is None or kept.size == current.size else since.root, verdict)
    elif not passes(header, kept):
        says = f"is {kept.size}, for which the export has no proof: export again with --since {kept.size}"
        verdict.faults.add(0, "", "size", says)


def passes(header: Header, kept: Checkpoint) -> bool:
    """Whether the leaves of a fleet's export come to the size that was kept, so that they give its root."""
    return header.scope == "fleet" and header.first <= kept.size <= header.first + header.count


def compare_roots(kept: Checkpoint, root: str, verdict: Verdict) -> None:
    if root == kept.root.hex():
        verdict.kept_proved = True
        return
    says = (
        f"is {kept.root.hex()} for the first {kept.size} leaves, the export's log begins with {root}: "
        "what was before has been changed"
    )
    verdict.faults.add(0, "", "root", says)


def unsealed(of: Ours, raw: bytes) -> tuple[str, str] | None:
    """The field and what is wrong, where a line was not written as it stands."""
    written = export.line(of)
    if written == raw:
        return None
    check = written[-11:-3].decode()
    if of.check == check:
        return "line", "is not in its one canonical form"
    return "check", f"is {of.check[:80]!r} and should be {check!r}: the line is damaged"


def filled(tree: cover.Cover, upto: int, fill: str) -> str | None:
    """Cover the tree up to a leaf with what a line gives; else what is wrong with that."""
    raw = export.bytes_of(fill)
    if raw is None:
        return "is not lower-case hex of whole hashes"
    if not 0 <= tree.size <= upto < 1 << cover.HEIGHTS:
        return f"leads from leaf {tree.size} to {upto}"
    if not tree.fill(upto, raw):
        takes = len(list(cover.gap(tree.size, upto)))
        return f"has {len(raw) // merkle.HASH} hashes, the leaves from {tree.size} to {upto} take {takes}"
    return None
