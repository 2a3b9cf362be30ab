"""The evidence of a working fleet: taken in beside its work, across restarts, and it verifies (api.md §6)."""

from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters import audit_key
from adapters.postgres import evidence_check
from domain import checkpoint
from exports import busy, covered
from given import Plane, plane


def verified(dsn: str, made: Plane) -> evidence_check.Report:
    told: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        key = checkpoint.key(made.wired.evidence.key)
        report = evidence_check.Verifier(connection, told.append, [key], audit_key.verify).run()
    assert told == []
    return report


def test_what_a_fleet_did_verifies_before_and_after_a_restart(database: str, tmp_path: Path) -> None:
    with plane(database, tmp_path) as before:
        busy(before)
        covered(before)
        first = verified(database, before)
        before.acme.ok("POST", "/v1/projects", {"name": "late"})
    with plane(database, tmp_path) as after:
        after.acme.ok("POST", "/v1/projects", {"name": "later"})
        covered(after)
        second = verified(database, after)
    assert second.leaves == second.events > first.leaves
    assert second.checkpoints == second.signed > 0


def test_how_far_the_evidence_is_behind_is_a_metric(plane: Plane) -> None:
    covered(plane)
    families = text_string_to_metric_families(plane.app.get("/metrics").text)
    (lag,) = [family for family in families if family.name == "better_compute_evidence_lag_events"]
    assert lag.samples[0].value == 0


@pytest.mark.parametrize("kind", ["directory", "text"])
def test_a_key_file_that_is_none_stops_the_start_in_one_line(database: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.key"
    if kind == "directory":
        path.mkdir()
    else:
        path.write_text("x")
    with pytest.raises(audit_key.KeyFileError, match=r"the audit key .*(is no private key|cannot be read)"):
        plane(database, tmp_path).__enter__()
