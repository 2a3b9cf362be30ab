"""`audit export`, `audit checkpoint` and `audit verify --export`: from the database into files, and checked alone."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from adapters import audit_key
from adapters.cli import fields, instants
from adapters.cli.audit import audit
from exports import busy, covered
from given import Plane
from queries import evidence as queries


@pytest.fixture
def evidence(plane: Plane, database: str, tmp_path: Path) -> tuple[str, ...]:
    """What the commands need to reach a busy log that is taken in, and its key."""
    busy(plane)
    covered(plane)
    return ("--database-url", database, "--audit-key-file", str(tmp_path / audit_key.NAME))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(audit, [str(one) for one in arguments])


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.exception) == (0, None), result.output
    return result.output


def test_an_export_is_checked_with_no_database_against_what_was_kept(
    plane: Plane, evidence: tuple[str, ...], tmp_path: Path
) -> None:
    kept, file = tmp_path / "kept.txt", tmp_path / "acme.jsonl"
    said = done("checkpoint", "-o", kept, *evidence)
    assert plane.wired.evidence.key in said
    plane.acme.ok("POST", "/v1/projects", {"name": "later"})
    covered(plane)
    done("export", "--tenant", "acme", "-o", file, "--checkpoint", kept, *evidence)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = done("verify", "--export", file, "--checkpoint", kept, "--key", plane.wired.evidence.key)
    assert "events 1 to" in told
    assert "nothing of the" in told
    assert "the signature is by the key that was given" in told
    assert "whose key" not in told
    kept_now = tmp_path / "next.txt"
    told = done("verify", "--export", file, "--keep", kept_now)
    assert "whose key" in told, "without a key, the export's own word"
    assert int(kept_now.read_text().splitlines()[1]) > int(kept.read_text().splitlines()[1])
    whole = tmp_path / "fleet.jsonl"
    done("export", "-o", whole, *evidence)
    assert "with their stored bytes" in done("verify", "--export", whole, "--checkpoint", kept_now)


def test_every_fault_is_a_line_and_the_exit_status_is_one(
    plane: Plane, evidence: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "acme.jsonl"
    done("export", "--tenant", "acme", "-o", file, *evidence)
    file.write_bytes(file.read_bytes().replace(b'"outcome":"deny"', b'"outcome":"allow"', 1))
    told = run("verify", "--export", file)
    assert told.exit_code == 1
    assert "outcome: is allow, the stored bytes say deny" in told.output
    assert "nothing is proved" in told.output


def test_what_a_file_says_cannot_steer_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "evil.jsonl"
    file.write_bytes(
        b'{"line":"header","format":"better-compute-audit/1","scope":"tenant","tenantId":"\\u001b[2J","first":1,'
        b'"count":0,"vkey":"\\u001b[2J+00000000+AA==","checkpoint":"\\u001b[2J\\n1\\n\\n\\u001b[2J\\n"}\n'
    )
    for kept in ((), ("--checkpoint", file)):
        told = run("verify", "--export", file, *kept)
        assert (told.exit_code, type(told.exception)) == (1, SystemExit)
        assert "\x1b" not in told.output


def test_what_cannot_be_is_said_in_a_line(plane: Plane, evidence: tuple[str, ...], tmp_path: Path) -> None:
    _, dsn, _, key = evidence
    file = tmp_path / "x.jsonl"
    wrong = (
        ("verify", "--keep", file),
        ("verify", "--export", key, "--key", "nonsense"),
        ("verify", "--export", key, "--key", "a", "--key", "b"),
        ("export", "-o", file, "--database-url", dsn),
        ("export", "-o", file, "--database-url", dsn, "--key", "nonsense"),
        ("export", "-o", file, "--from", "99999", *evidence),
        ("export", "-o", file, "--tenant", "acmee", *evidence),
        ("export", "-o", file, "--since", "99999", *evidence),
        ("export", "-o", file, "--checkpoint", key, *evidence),
        ("export", "-o", tmp_path / "no" / "x", *evidence),
    )
    for arguments in wrong:
        told = run(*arguments)
        assert told.exit_code in (1, 2), arguments
        assert isinstance(told.exception, SystemExit), (arguments, told.exception)
        assert not file.exists()


def test_without_the_key_file_the_latest_checkpoint_is_exported(
    plane: Plane, evidence: tuple[str, ...], tmp_path: Path
) -> None:
    _, dsn, _, _ = evidence
    done("checkpoint", *evidence)
    file, vkey = tmp_path / "x.jsonl", plane.wired.evidence.key
    done("export", "-o", file, "--database-url", dsn, "--key", vkey)
    done("verify", "--export", file, "--key", vkey)


def test_what_is_no_file_is_written_to_and_not_replaced(evidence: tuple[str, ...], tmp_path: Path) -> None:
    """Root would have had /dev/null replaced by a file."""
    os.mkfifo(pipe := tmp_path / "pipe")
    with ThreadPoolExecutor(1) as reader:
        taken = reader.submit(pipe.read_bytes)
        done("checkpoint", "-o", pipe, *evidence)
        assert taken.result().startswith(b"better-compute/")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    (full_disk := tmp_path / "full").symlink_to("/dev/full")
    full = run("export", "-o", full_disk, *evidence)
    assert (full.exit_code, type(full.exception)) == (1, SystemExit)
    assert "full: No space left on device" in full.output
    assert full_disk.is_symlink()


@pytest.mark.parametrize("name", ["audit.export", "audit.checkpoint"])
def test_since_is_a_size_and_no_instant(name: str) -> None:
    operation = next(one for one in queries.OPERATIONS if one.name == name)
    assert not isinstance(fields.option(fields.of(operation)["since"]).type, instants.Instant)
