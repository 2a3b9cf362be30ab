"""What was written before a crash is known after it, and no more."""

import stat

from adapters.agent.journal import Begun, File, Finished, Journal


def begun(n, **more):
    return Begun(f"cmd_{n}", "inspect", n, "boot-1", **more)


def test_what_has_begun_and_what_has_ended_are_known_after_a_restart(tmp_path):
    path = tmp_path / "commands.jsonl"
    first = Journal(File(path))
    first.begin(begun(1))
    first.finish(Finished("cmd_1", "succeeded", {"hash": "x"}))
    first.begin(begun(2, attempt=2))
    again = Journal(File(path))
    assert again.finished("cmd_1") == Finished("cmd_1", "succeeded", {"hash": "x"})
    assert again.begun("cmd_1") is None
    assert again.begun("cmd_2") == begun(2, attempt=2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_that_a_crash_cut_short_says_nothing_and_spoils_nothing(tmp_path):
    path = tmp_path / "commands.jsonl"
    Journal(File(path)).begin(begun(1))
    path.write_bytes(path.read_bytes() + b'{"type":"begun","id":"cmd_2"')
    again = Journal(File(path))
    again.begin(begun(3))
    last = Journal(File(path))
    assert [last.begun(f"cmd_{n}") is not None for n in (1, 2, 3)] == [True, False, True]


def test_a_line_that_cannot_be_read_does_not_hide_the_others(tmp_path):
    path = tmp_path / "commands.jsonl"
    path.write_bytes(b"nonsense\n")
    Journal(File(path)).begin(begun(1))
    assert Journal(File(path)).begun("cmd_1") is not None


def test_the_oldest_that_ended_are_forgotten_and_none_that_has_begun(tmp_path):
    path = tmp_path / "commands.jsonl"
    journal = Journal(File(path), kept=3)
    journal.begin(begun(0))
    for n in range(1, 12):
        journal.begin(begun(n))
        journal.finish(Finished(f"cmd_{n}", "succeeded"))
    again = Journal(File(path), kept=3)
    assert again.begun("cmd_0") is not None
    assert [n for n in range(1, 12) if again.finished(f"cmd_{n}")] == [9, 10, 11]
    assert len(path.read_bytes().splitlines()) == 4
