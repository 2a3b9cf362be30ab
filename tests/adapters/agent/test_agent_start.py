"""Where an agent does not start, and what it says."""

import asyncio
import os

import pytest
from fake_plane import NODE

from adapters.agent import joining
from adapters.agent.driver import Failed
from adapters.agent.run import Agent, AgentError, Settings
from fake_driver import Driver


def started(tmp_path, **more):
    driver = Driver(tmp_path)
    given = {"server": "http://127.0.0.1:9", "state": tmp_path / "s", "cdi": tmp_path / "cdi", "root": driver.root}
    with pytest.raises(AgentError) as refused:
        asyncio.run(Agent(Settings(**given | more)).run())
    return str(refused.value)


def test_a_machine_that_never_joined_needs_a_token(tmp_path):
    assert "give it a token with --join-token" in started(tmp_path)


def test_a_root_that_is_no_hosts_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is --root the host's?" in started(tmp_path, root=tmp_path / "empty")


def test_a_file_in_place_of_a_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in started(tmp_path, cdi=tmp_path / "file")


def test_a_machine_that_cannot_run_instances_says_what_would_help(tmp_path):
    async def make(means):
        raise Failed("NoQemu", "install qemu-system-x86")

    keys = joining.Keyring(joining.state_directory(tmp_path / "s") / "identity.json")
    keys.key("agent")
    keys.put(("agent", NODE))
    assert started(tmp_path, make_driver=make) == "instances cannot run on this machine: install qemu-system-x86"


def test_a_damaged_identity_makes_no_second_node(tmp_path):
    state = joining.state_directory(tmp_path / "s")
    (state / "identity.json").write_text('{"agent": {')
    assert "is damaged" in started(tmp_path, token="t")
    assert (state / "identity.json").read_text() == '{"agent": {'


def test_a_directory_that_others_could_read_is_closed(tmp_path):
    state = tmp_path / "open"
    state.mkdir()
    os.chmod(state, 0o755)
    joining.state_directory(state)
    assert state.stat().st_mode & 0o777 == 0o700


def test_a_key_outlives_a_join_whose_answer_was_lost(tmp_path):
    first = joining.Keyring(tmp_path / "k.json").key("agent").private_bytes_raw()
    again = joining.Keyring(tmp_path / "k.json")
    assert again.get("agent") is None
    assert again.key("agent").private_bytes_raw() == first
    again.put(("agent", NODE))
    known = joining.Keyring(tmp_path / "k.json").get("agent")
    assert (known.node_id, known.key.private_bytes_raw()) == (NODE, first)
    assert [path.name for path in tmp_path.iterdir()] == ["k.json"]
