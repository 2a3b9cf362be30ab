"""What tests of exports share: a busy log, its evidence, and the check as an auditor runs it."""

import io
import time
from typing import Any

from adapters import offline
from adapters.postgres import export as written
from domain.export import Ask
from domain.export_report import Verdict
from given import DEADLINE_S, Plane


def busy(plane: Plane) -> tuple[str, str]:
    """A fleet, a reservation that is activated, refusals, and another tenant's work; returns pool and reservation."""
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id).json()["id"]
    plane.activate(plane.acme, made)
    plane.globex.ok("POST", "/v1/projects", {"name": "secret-of-globex"})
    plane.globex.get(f"/v1/reservations/{made}")
    plane.acme.get("/v1/sites?scope=fleet")
    return pool_id, made


def exported(plane: Plane, tenant: str | None = "acme", note: str | None = None, **ask: Any) -> bytes:
    """An export against a checkpoint of now, with all that happened in it."""
    note = signed(plane) if note is None else note
    ask_ = Ask(tenant_id=tenant, **ask)
    return b"".join(written.lines(plane.wired.reads.connection, ask_, note, plane.wired.evidence.key))


def covered(plane: Plane) -> int:
    """Wait until the evidence has taken in all that is in the log; return the position."""
    head, deadline = plane.settle(), time.monotonic() + DEADLINE_S
    while plane.wired.evidence.position < head:
        assert time.monotonic() < deadline, f"the evidence is at {plane.wired.evidence.position}, not {head}"
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
    return head


def signed(plane: Plane) -> str:
    covered(plane)
    return plane.wired.evidence.sign()


def checked(content: bytes, kept: str | None = None, vkey: str | None = None) -> Verdict:
    return offline.check(io.BytesIO(content), kept, vkey)
