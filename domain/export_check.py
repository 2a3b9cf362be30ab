"""The check of an export from its lines alone: no server, no database, bounded memory (api.md §6).

Every fault is named by line, event and field. After a fault the check goes on from what the line itself says, so that
one damaged line does not hide the next.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from domain import export, export_header
from domain.export import End
from domain.export_events import Events
from domain.export_header import Trust
from domain.export_leaves import Leaves
from domain.export_report import Faults, Verdict
from domain.export_walk import Walk, printable

_END: Final = b'{"line":"end"'


def check(lines: Iterable[bytes], trust: Trust) -> Verdict:
    """Check an export. `lines` end in their newline, and none is longer than `export.MOST_LINE` + 1."""
    verdict = Verdict(Faults())
    come = iter(lines)
    first = next(come, b"")
    known = export_header.read(first, trust, verdict) if _fits(first, 1, verdict) else None
    if known is None:
        return verdict
    walk = Walk(known, trust, verdict)
    body = Events(walk) if known.header.scope == "tenant" else Leaves(walk)
    digest = sha256(first)
    end: End | None = None
    for walk.number, raw in enumerate(come, 2):
        if not _fits(raw, walk.number, verdict):
            return verdict
        if end is not None:
            walk.fault("", "line", "comes after the end")
            return verdict
        if raw.startswith(_END):
            end = walk.typed(raw, End, "end")
            if end is None:
                return verdict
            body.end(end)
            _end(walk, end, digest.hexdigest())
        else:
            body.line(raw)
            digest.update(raw)
    verdict.lines = walk.number
    if end is None:
        walk.fault("", "line", "is the last: the export was cut off, its end is missing")
    return verdict


def _fits(raw: bytes, number: int, verdict: Verdict) -> bool:
    """Whether it is a line: what has none of its length or no newline is no part of an export that goes on."""
    if not raw:
        verdict.faults.add(number, "", "line", "is missing: the file is empty")
    elif len(raw) > export.MOST_LINE:
        verdict.faults.add(number, "", "line", f"is longer than {export.MOST_LINE} bytes")
    elif not raw.endswith(b"\n"):
        verdict.faults.add(number, "", "line", "does not end in a newline: the export was cut off or changed here")
    else:
        return True
    return False


def _end(walk: Walk, end: End, digest: str) -> None:
    """What the last line says of all before it."""
    walk.verdict.next = end.next
    if end.lines != walk.number - 1:
        walk.fault("end", "lines", f"is {end.lines}, there are {walk.number - 1} before this one")
    walk.finish(end.fill)
    if end.sha256 != digest:
        walk.fault("end", "sha256", f"is {printable(end.sha256)}, the lines before have {digest}")
