"""Programs end with the command that ran them, and what they print is bounded."""

import asyncio
from pathlib import Path

import pytest
from fake_plane import scenario, until

from adapters.agent import program


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@scenario
async def test_whatever_a_program_started_is_killed_with_it(tmp_path):
    note = tmp_path / "pid"
    run = asyncio.create_task(program.run(("sh", "-c", f"sleep 60 & echo $! > {note}.new; mv {note}.new {note}; wait")))
    await until(note.exists)
    child = int(note.read_text())
    assert lives(child)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await until(lambda: not lives(child))


@scenario
async def test_what_a_program_prints_is_kept_up_to_a_bound():
    done = await program.run(("sh", "-c", "head -c 3000000 /dev/zero; echo no >&2; exit 3"))
    assert (done.code, len(done.printed), done.why()) == (3, program.MAX_OUTPUT, "no")


@scenario
async def test_a_program_that_is_not_there_is_told_from_one_that_fails():
    assert (await program.run(("no-such-program-here",))).code == 127
    assert (await program.run(("false",))).why() == "exit code 1"
