"""How commands reach an agent over a real socket: in order, again in a new session, alone if they must (O36)."""

from typing import Any

import pytest
from fake_plane import NODE, FakeStore, Plane, opened, plane, scenario, until

from adapters.agent import protocol
from commands import node_commands
from domain import node, node_command


def queued(store: FakeStore, number: int, name: node_command.Name = "inspect", **fields: Any) -> str:
    """A command that somebody issued."""
    command_id = "cmd_" + str(number).rjust(26, "0")
    change, event = node_commands.queue(store.state(), NODE, command_id, name, store.time, **fields)
    store.streams[command_id] = list(change.events)
    store.add(event)
    return command_id


def status(store: FakeStore, command_id: str) -> str:
    of: node_command.State = store.load(command_id).state
    return of.status


async def heard(peer: Any, made: Plane) -> protocol.Command:
    message = await peer.hear()
    assert isinstance(message, protocol.Command), message
    return message


@scenario
async def test_commands_come_in_order_and_are_recorded_before_they_are_sent() -> None:
    store = FakeStore()
    first, second = queued(store, 1), queued(store, 2)
    async with plane(store) as made, opened(made) as peer:
        one, two = await heard(peer, made), await heard(peer, made)
        assert [(one.id, one.seq), (two.id, two.seq)] == [(first, 1), (second, 2)]
        assert (one.name, one.remaining_seconds) == ("inspect", 3600)
        assert {status(store, first), status(store, second)} == {"delivered"}
        await peer.say(protocol.Ack(first, 1))
        await peer.say(protocol.Result(first, 1, "succeeded", {"hash": "x"}))
        await until(lambda: status(store, first) == "succeeded")
        assert [one.id for one in store.state().commands] == [second]


@scenario
async def test_what_has_no_result_comes_again_in_the_next_session_and_only_there() -> None:
    store = FakeStore()
    command_id = queued(store, 1)
    async with plane(store) as made:
        async with opened(made) as peer:
            await heard(peer, made)
            await peer.say(protocol.Ack(command_id, 1))
            await until(lambda: store.load(command_id).state.acknowledged_at is not None)
            made.gateway.has_news(NODE)
            store.add(node.SpecChanged(7))
            made.gateway.has_news(NODE)
            assert isinstance(await peer.hear(), protocol.Spec), "not again in the same session"
        store.time += 2 * 3_600_000
        async with opened(made) as peer:
            again = await heard(peer, made)
            assert (again.id, again.remaining_seconds) == (command_id, -3600)
            await peer.say(protocol.Result(command_id, 2, "expired"))
            await until(lambda: status(store, command_id) == "expired")


@scenario
async def test_an_answer_of_another_session_is_refused() -> None:
    store = FakeStore()
    command_id = queued(store, 1)
    async with plane(store) as made, opened(made) as peer:
        await heard(peer, made)
        await peer.say(protocol.Result(command_id, 0, "succeeded"))
        assert (await peer.closed())[0] == protocol.MALFORMED
        assert status(store, command_id) == "delivered"


@pytest.mark.parametrize("other", [NODE, "nonsense"])
@scenario
async def test_an_answer_that_names_no_command_is_refused_by_its_field(other: str) -> None:
    async with plane(FakeStore()) as made, opened(made) as peer:
        await peer.say(protocol.Ack(other, 1))
        code, reason = await peer.closed()
        assert (code, reason.partition(":")[0]) == (protocol.MALFORMED, "commandId")


@scenario
async def test_what_is_not_due_is_passed_over_and_comes_when_it_is() -> None:
    store = FakeStore()
    later = queued(store, 1, not_before=60_000)
    waiting = queued(store, 2, min_generation=1)
    now = queued(store, 3)
    async with plane(store) as made, opened(made) as peer:
        assert (await heard(peer, made)).id == now
        store.time = 60_000
        made.pass_time(1)
        assert (await heard(peer, made)).id == later
        store.add(node.SpecChanged(1))
        made.gateway.has_news(NODE)
        assert isinstance(await peer.hear(), protocol.Spec)
        await peer.say(protocol.Status(1, {}))
        assert (await heard(peer, made)).id == waiting


@scenario
async def test_an_exclusive_command_waits_for_what_runs_and_holds_back_what_comes_after() -> None:
    store = FakeStore()
    before, alone, after = queued(store, 1), queued(store, 2, "agent-upgrade"), queued(store, 3)
    async with plane(store) as made, opened(made) as peer:
        assert (await heard(peer, made)).id == before
        await peer.say(protocol.Result(before, 1, "succeeded"))
        assert (await heard(peer, made)).id == alone
        assert status(store, after) == "queued"
        await peer.say(protocol.Result(alone, 1, "failed", {}, "NotConfigured"))
        assert (await heard(peer, made)).id == after


@scenario
async def test_answers_survive_an_outage_of_the_store() -> None:
    store = FakeStore()
    command_id = queued(store, 1)
    async with plane(store) as made, opened(made) as peer:
        await heard(peer, made)
        store.down = True
        await peer.say(protocol.Result(command_id, 1, "succeeded"))
        await until(lambda: store.failed)
        store.down = False
        await until(lambda: status(store, command_id) == "succeeded")


@scenario
async def test_a_clock_that_jumps_is_told_and_what_a_heartbeat_takes_is_not() -> None:
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        await peer.say(protocol.Heartbeat(clock=400))
        await peer.say(protocol.Heartbeat(clock=100_000))
        await until(lambda: [one.type for one in store.state().conditions] == ["ClockSkew"])
        await peer.say(protocol.Heartbeat(clock=900))
        await until(lambda: not store.state().conditions)


@scenario
async def test_a_clock_that_jumps_during_an_outage_of_the_store_is_told_after_it() -> None:
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        store.down = True
        await peer.say(protocol.Heartbeat(clock=100_000))
        await until(lambda: store.failed)
        store.down = False
        await until(lambda: [one.type for one in store.state().conditions] == ["ClockSkew"])
