"""`audit verify` against a database: what it says, and its exit status."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from adapters.cli import audit_verify
from adapters.cli.audit import audit
from audited import Audited, audited


@pytest.fixture
def house(database: str) -> Iterator[Audited]:
    with audited(database) as made:
        made.log(8)
        made.take_in()
        made.sign()
        yield made


def verify(dsn: str, *more: str) -> Result:
    return CliRunner().invoke(audit, ("verify", "--database-url", dsn, *more))


def test_a_log_as_it_was_recorded_verifies(house: Audited, database: str) -> None:
    house.log(2)
    result = verify(database, "--key", house.signer.key.vkey)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("8 events and 8 links of chains verified in ")
    assert lines[1].startswith("tree of 8 leaves, root ")
    assert lines[2:] == [
        "1 checkpoints verified",
        f"verifier key {house.signer.key.vkey}",
        "2 later events are not taken in yet",
    ]


def test_the_key_of_the_data_directory_verifies(house: Audited, database: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    path.write_bytes(house.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    assert "1 checkpoints verified\n" in verify(database, "--data-dir", str(tmp_path)).output
    path.chmod(0o644)
    assert "open to others" in verify(database, "--data-dir", str(tmp_path)).output


def test_without_a_key_it_says_that_signatures_were_not_verified(house: Audited, database: str) -> None:
    assert "name the verifier key with --key" in verify(database).output


def test_what_a_database_says_cannot_steer_a_terminal(house: Audited, database: str) -> None:
    house.connection.execute(
        "UPDATE stored_events SET originator_id = E'\\x1b[2J' || originator_id, topic = E'\\x1b]0;x' || topic"
    )
    result = verify(database)
    assert result.exit_code == 1
    assert "\\x1b[2J" in result.output
    assert "\x1b" not in result.output


def test_a_kept_checkpoint_that_is_no_text_is_a_fault(house: Audited, database: str, tmp_path: Path) -> None:
    note = house.signer.note(*house.tree()).encode()
    at = len(b"better-compute/")
    for wrong in (b"\xff\xfe\n" * 100, note[:at] + b"\xff" + note[at:], note[:-9] + b"\xff" + note[-9:], b""):
        (kept := tmp_path / "kept").write_bytes(wrong)
        result = verify(database, "--key", house.signer.key.vkey, "--checkpoint", str(kept))
        assert (result.exit_code, type(result.exception)) == (1, SystemExit), result.output
        assert "checkpoint" in result.output.splitlines()[0]


def test_faults_are_named_and_the_exit_status_is_1(
    house: Audited, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.connection.execute("UPDATE stored_events SET recorded_at = recorded_at + 1000000007")
    monkeypatch.setattr(audit_verify, "SHOWN", 3)
    result = verify(database, "--key", house.signer.key.vkey)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "the event is not the one recorded as leaf 0" in lines[0]
    assert lines[3] == "… and 13 more"
    assert lines[-1] == "16 faults"


def test_a_checkpoint_kept_elsewhere_shows_that_log_and_evidence_were_made_anew(
    house: Audited, database: str, tmp_path: Path
) -> None:
    (kept := tmp_path / "yesterday").write_text(house.signer.note(*house.tree()))
    holding = ("--key", house.signer.key.vkey, "--checkpoint", str(kept))
    assert "2 checkpoints verified\n" in verify(database, *holding).output
    house.connection.execute("UPDATE stored_events SET recorded_at = 0")
    house.begin_anew()
    house.take_in()
    house.sign()
    assert "1 checkpoints verified\n" in verify(database, "--key", house.signer.key.vkey).output
    result = verify(database, *holding)
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == ("checkpoint of size 8: the root that was signed is not that of the leaves")
    kept.write_text("x")
    assert "the checkpoint that was kept: a signed note is" in verify(database, *holding).output


@pytest.mark.parametrize("key", ["x", "a+00000000+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"])
def test_a_key_that_is_none_is_refused(house: Audited, database: str, key: str) -> None:
    result = verify(database, "--key", key)
    assert result.exit_code == 2
    assert "--key: " in result.output


def test_a_tree_without_a_checkpoint_is_said_to_be_vouched_for_by_nothing(house: Audited, database: str) -> None:
    house.connection.execute("DELETE FROM audit_checkpoints")
    result = verify(database, "--key", house.signer.key.vkey)
    assert "no checkpoint vouches for the tree" in result.output


def test_a_database_that_does_not_say_which_log_it_is_is_told(house: Audited, database: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    path.write_bytes(house.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    house.connection.execute("DELETE FROM log_identity")
    for more in ((), ("--data-dir", str(tmp_path))):
        result = verify(database, *more)
        assert (result.exit_code, "which log it is of is not recorded any more" in result.output) == (1, True)
    house.connection.execute("INSERT INTO log_identity (incarnation) VALUES ('again')")
