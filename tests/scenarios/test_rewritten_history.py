"""Who rewrites the log and signs it again, with the very key, is told by a checkpoint that was kept (api.md §6)."""

from pathlib import Path

import psycopg

from exports import busy, checked, covered, exported, signed
from given import plane


def forget(dsn: str) -> None:
    """The evidence as if nobody had written any; only its owner of the database could."""
    with psycopg.connect(dsn) as connection:
        connection.execute("DELETE FROM audit_chain")
        connection.execute("DELETE FROM audit_tiles")
        connection.execute("DELETE FROM audit_checkpoints")
        connection.execute("UPDATE audit_progress SET position = 0, size = 0")


def test_a_log_rewritten_and_signed_again_is_not_consistent_with_what_was_kept(database: str, tmp_path: Path) -> None:
    with plane(database, tmp_path) as before:
        _, made = busy(before)
        kept, vkey = signed(before), before.wired.evidence.key
        size = covered(before) and int(kept.splitlines()[1])
        victim = before.store.history(made)[1].position
    with psycopg.connect(database) as connection:
        rewrite = "UPDATE stored_events SET recorded_at = recorded_at - 1 WHERE notification_id = %s"
        connection.execute(rewrite, (victim,))
    forget(database)
    with plane(database, tmp_path) as after:
        assert after.wired.evidence.key == vkey
        after.acme.ok("POST", "/v1/projects", {"name": "later"})
        for tenant in ("acme", "globex", None):
            content = exported(after, tenant, since=size)
            assert checked(content).good, "in itself it is sound: it was all computed again"
            verdict = checked(content, kept, vkey)
            told = [str(fault) for fault in verdict.faults.told]
            assert len(told) == 1
            assert told[0].startswith("the checkpoint file: root: is ")
            assert told[0].endswith("what was before has been changed")


def test_a_log_that_lost_its_end_is_told_by_what_was_kept(database: str, tmp_path: Path) -> None:
    with plane(database, tmp_path) as before:
        busy(before)
        earlier = exported(before)
        before.acme.ok("POST", "/v1/projects", {"name": "to-be-lost"})
        kept = signed(before)
        assert checked(earlier, kept).faults.told[0].field == "size"
