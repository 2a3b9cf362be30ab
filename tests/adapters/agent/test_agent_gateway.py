"""What a gateway does with agents, good and bad, over a real socket (api.md §4)."""

import asyncio
import contextlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_plane import KEY, NODE, FakeStore, allocation, dialled, hello, opened, plane, scenario, spec_changed, until

from adapters import ids
from adapters.agent import gateway, protocol
from commands import agents
from domain import errors, node


@scenario
async def test_a_session_is_recorded_and_begins_with_the_spec():
    store = FakeStore()
    store.add(spec_changed(3, "a1"))
    async with plane(store) as made, dialled(made) as peer:
        await peer.say(hello(await peer.hear()))
        welcome = await peer.hear()
        assert (welcome.epoch, welcome.ttl_seconds) == (1, 40)
        assert welcome.session_id.startswith("sess_")
        assert await peer.hear() == protocol.Spec(3, (allocation("a1"),))
    assert store.connectivity()[0] == "connected"


@scenario
async def test_a_status_reaches_the_log():
    store = FakeStore()
    store.add(spec_changed(3, "a1"))
    async with plane(store) as made, opened(made) as peer:
        await peer.say(protocol.Status(3, {"a1": "prepared"}))
        await until(lambda: store.state().observed_generation == 3)


@scenario
async def test_a_clean_close_is_a_disconnection():
    store = FakeStore()
    async with plane(store) as made:
        async with opened(made):
            pass
        await until(lambda: store.connectivity() == ["connected", "disconnected"])


@scenario
async def test_a_connection_that_breaks_keeps_its_lease_until_it_lapses():
    store = FakeStore()
    async with plane(store) as made:
        async with opened(made) as peer:
            peer.socket.transport.abort()
        await until(lambda: made.gateway._sessions == 0)
        made.pass_time(39)
        await made.gateway.record()
        assert store.connectivity() == ["connected"]
        made.pass_time(1)
        await made.gateway.record()
        assert store.connectivity() == ["connected", "unreachable"]


@scenario
async def test_a_silent_agent_is_unreachable_after_its_lease_and_is_told():
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        made.pass_time(40)
        assert (await peer.closed())[0] == protocol.TOO_SLOW
        await until(lambda: store.connectivity() == ["connected", "unreachable"])


@scenario
async def test_a_heartbeat_renews_the_lease_even_while_the_store_is_down():
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        made.pass_time(35)
        store.down = True
        renewed = made.gateway._leases._held[NODE].deadline
        await peer.say(protocol.Heartbeat())
        await until(lambda: made.gateway._leases._held[NODE].deadline > renewed)
        made.pass_time(35)
        store.down = False
        assert await made.gateway.record()
        assert store.connectivity() == ["connected"]


@scenario
async def test_an_ending_that_an_outage_kept_out_is_recorded_later():
    store = FakeStore()
    async with plane(store) as made, opened(made):
        store.down = True
        made.pass_time(40)
        assert not await made.gateway.record()
        store.down = False
        assert await made.gateway.record()
        assert store.connectivity() == ["connected", "unreachable"]


@scenario
async def test_a_newer_session_supersedes_the_older():
    store = FakeStore()
    async with plane(store) as made, opened(made) as older, opened(made) as newer:
        assert isinstance(await older.hear(), protocol.Superseded)
        assert await older.closed() == (protocol.SUPERSEDED, "superseded")
        store.add(spec_changed(9))
        made.gateway.has_news(NODE)
        assert (await newer.hear()).generation == 9
        assert store.connectivity() == ["connected", "connected"]


@scenario
async def test_what_another_gateway_superseded_is_fenced():
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        agents.open_session(store, NODE)
        await peer.say(protocol.Status(0, {}))
        assert isinstance(await peer.hear(), protocol.Superseded)
        assert (await peer.closed())[0] == protocol.SUPERSEDED


@scenario
async def test_a_changed_spec_is_pushed_once_however_often_it_was_announced():
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        store.add(spec_changed(1, "a1"))
        store.add(spec_changed(2, "a2"))
        for _ in range(50):
            await asyncio.to_thread(made.gateway.has_news, NODE)
        assert (await peer.hear()).generation == 2
        store.add(spec_changed(3))
        made.gateway.has_news(NODE)
        assert (await peer.hear()).generation == 3


@scenario
async def test_a_status_that_an_outage_refused_is_asked_for_again(monkeypatch):
    monkeypatch.setattr("adapters.agent.peer.FIRST_PAUSE", 0.01)
    store = FakeStore()
    store.add(spec_changed(1))
    async with plane(store) as made, opened(made) as peer:
        store.down = True
        await peer.say(protocol.Status(1, {}))
        await until(lambda: store.failed)
        store.down = False
        assert (await peer.hear()).generation == 1
        await peer.say(protocol.Status(1, {}))
        await until(lambda: store.state().observed_generation == 1)


def strangers():
    other = Ed25519PrivateKey.generate()
    return {
        "wrong key": lambda c: hello(c, key=other),
        "replayed nonce": lambda _: hello(protocol.Challenge("old", "plane-a")),
        "another audience": lambda c: hello(protocol.Challenge(c.nonce, "plane-b")),
        "unknown node": lambda c: hello(c, node_id="node_" + "1" * 26),
        "no node": lambda c: hello(c, node_id="rsv_1\x00"),
    }


@pytest.mark.parametrize("who", strangers())
@scenario
async def test_a_stranger_is_refused_and_nothing_is_recorded(who):
    store = FakeStore()
    async with plane(store) as made, dialled(made) as peer:
        await peer.say(strangers()[who](await peer.hear()))
        assert await peer.closed() == (protocol.UNAUTHENTICATED, "unknown node or wrong signature")
        assert store.connectivity() == []


@scenario
async def test_a_retired_node_is_a_stranger():
    store = FakeStore()
    store.add(node.Moved("retired", "gone", 2))
    async with plane(store) as made, dialled(made) as peer:
        await peer.say(hello(await peer.hear()))
        assert (await peer.closed())[0] == protocol.UNAUTHENTICATED


@scenario
async def test_a_key_that_was_replaced_ends_its_session_and_opens_none():
    store = FakeStore()
    other = Ed25519PrivateKey.generate()
    async with plane(store) as made, opened(made) as older, dialled(made) as late:
        challenge = await late.hear()
        store.add(node.Rekeyed(protocol.public_key(other), protocol.public_key(KEY), "jt_2", 5))
        store.add(node.ConnectivityChanged("disconnected", 2, 5))
        made.gateway.has_news(NODE)
        assert isinstance(await older.hear(), protocol.Superseded)
        await late.say(hello(challenge))
        assert (await late.closed())[0] == protocol.UNAUTHENTICATED
        async with opened(made, key=other):
            assert store.state().session == 3
            assert store.connectivity() == ["connected", "disconnected", "connected"]


def test_a_session_is_not_opened_with_a_key_that_was_replaced_meanwhile():
    store = FakeStore()
    was = protocol.public_key(KEY)
    store.add(node.Rekeyed("new", was, "jt_2", 5))
    arrival = agents.Arrival(agents.Hello("boot-1", "0.1", was), ids.Mint())
    with pytest.raises(errors.Fenced, match="was replaced"):
        agents.open_session(store, NODE, "gw", arrival)


HOSTILE = {
    "garbage": ("garbage", protocol.MALFORMED),
    "bytes": (b"\x00\xff", protocol.MALFORMED),
    "another type": ('{"type":"welcome"}', protocol.MALFORMED),
    "deep": ('{"type":"status","observedGeneration":0,"items":' + '{"a":' * 20_000, protocol.MALFORMED),
    "too big": (json.dumps({"type": "heartbeat", "x": "x" * 270_000}), protocol.TOO_BIG),
    "far too big": ('{"type":"inventory","inventory":"%s"}' % ("x" * 1_050_000), protocol.TOO_BIG),
    "no inventory": ('{"type":"inventory","inventory":{"schema":"x"}}', protocol.MALFORMED),
    "bad inventory": (
        json.dumps({"type": "inventory", "inventory": {"schema": "NodeInventory/v1", "gpus": [{"uuid": "x"}]}}),
        protocol.MALFORMED,
    ),
    "from the future": ('{"type":"status","observedGeneration":7,"items":{}}', protocol.MALFORMED),
}


@pytest.mark.parametrize("what", HOSTILE)
@scenario
async def test_hostile_words_close_the_session_with_a_reason_and_nothing_else(what, caplog):
    text, code = HOSTILE[what]
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        await peer.socket.send(text)
        closed, reason = await peer.closed()
        assert closed == code
        assert reason
        assert "Traceback" not in reason
        await until(lambda: store.connectivity() == ["connected", "disconnected"])
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("text", ["garbage", '{"type":"heartbeat"}', '{"type":"hello"}'])
@scenario
async def test_what_is_no_hello_opens_nothing(text):
    async with plane() as made, dialled(made) as peer:
        await peer.hear()
        await peer.socket.send(text)
        assert (await peer.closed())[0] == protocol.MALFORMED


@scenario
async def test_a_stranger_may_not_even_say_much():
    async with plane() as made, dialled(made) as peer:
        await peer.hear()
        await peer.socket.send(json.dumps({"type": "inventory", "inventory": "x" * protocol.MAX_HELLO}))
        assert (await peer.closed())[0] == protocol.TOO_BIG


@scenario
async def test_who_says_no_hello_is_let_go():
    async with plane(hello_seconds=0.05) as made, dialled(made) as peer:
        assert (await peer.closed())[0] == protocol.TOO_SLOW


@scenario
async def test_a_store_that_is_down_at_hello_means_later():
    store = FakeStore()
    async with plane(store) as made, dialled(made) as peer:
        challenge = await peer.hear()
        store.down = True
        await peer.say(hello(challenge))
        assert (await peer.closed())[0] == protocol.TRY_LATER


@scenario
async def test_too_many_handshakes_at_once_are_put_off(monkeypatch):
    monkeypatch.setattr(gateway, "MAX_HANDSHAKES", 1)
    async with plane() as made, dialled(made) as first:
        challenge = await first.hear()
        async with dialled(made) as second:
            assert (await second.closed())[0] == protocol.TRY_LATER
        await first.say(hello(challenge))
        assert isinstance(await first.hear(), protocol.Welcome)


@scenario
async def test_a_stop_closes_sessions_and_records_nothing():
    store = FakeStore()
    async with plane(store) as made, opened(made) as peer:
        made.server.should_exit = True
        code, _ = await peer.closed()
        assert code in (1001, 1012)
    assert store.connectivity() == ["connected"]


@scenario
async def test_adopted_nodes_have_one_ttl_to_come_back():
    other = "node_" + "1" * 26
    store = FakeStore(**{NODE: KEY, other: KEY})
    for node_id in (NODE, other):
        agents.open_session(store, node_id)
    async with plane(store) as made:
        await asyncio.to_thread(made.gateway.adopt, {NODE: 1, other: 1})
        await until(lambda: len(made.gateway._leases) == 2)
        made.gateway.sweep()
        async with opened(made):
            made.pass_time(20)
            made.gateway._leases.renew(made.gateway._leases._held[NODE])
            made.pass_time(20)
            await made.gateway.record()
            assert store.connectivity(other) == ["connected", "unreachable"]
            assert store.connectivity(NODE) == ["connected", "connected"]


FLEET = {f"node_{n:026}": KEY for n in range(4)}


@contextlib.asynccontextmanager
async def gone(store):
    """A gateway that has adopted the fleet's first node, which is not here; two others at once are a crowd."""
    agents.open_session(store, NODE)
    async with plane(store) as made:
        made.gateway.adopt({NODE: 1})
        await until(lambda: len(made.gateway._leases) == 1)
        made.gateway.sweep()
        yield made


async def judged_after(made, seconds):
    made.pass_time(seconds)
    await made.gateway.record()
    return made.store.connectivity()[-1] == "unreachable"


@scenario
async def test_strangers_at_the_door_put_off_no_judgement(monkeypatch):
    monkeypatch.setattr(gateway, "CROWD", 1)
    async with gone(FakeStore(**FLEET)) as made, dialled(made), dialled(made), dialled(made):
        for node_id in list(FLEET)[1:]:
            async with dialled(made) as stranger:
                await stranger.say(hello(await stranger.hear(), Ed25519PrivateKey.generate(), node_id))
                assert (await stranger.closed())[0] == protocol.UNAUTHENTICATED
        await until(lambda: made.gateway._handshakes == 3)
        assert await judged_after(made, 40)


@scenario
async def test_connections_without_a_hello_that_fill_the_door_put_off_no_judgement(monkeypatch):
    monkeypatch.setattr(gateway, "MAX_HANDSHAKES", 1)
    async with gone(FakeStore(**FLEET)) as made, dialled(made), dialled(made) as second:
        made.pass_time(20)
        assert (await second.closed())[0] == protocol.TRY_LATER
        assert await judged_after(made, 20)


@scenario
async def test_who_is_not_here_yet_is_not_judged_while_a_fleet_comes_back(monkeypatch):
    monkeypatch.setattr(gateway, "CROWD", 1)
    one, other = list(FLEET)[1:3]
    async with gone(FakeStore(**FLEET)) as made:
        made.pass_time(35)
        async with opened(made, node_id=one), opened(made, node_id=other):
            assert not await judged_after(made, 48)
            assert await judged_after(made, 2)


@scenario
async def test_one_node_that_comes_again_and_again_is_no_crowd(monkeypatch):
    monkeypatch.setattr(gateway, "CROWD", 1)
    async with gone(FakeStore(**FLEET)) as made:
        made.pass_time(35)
        for _ in range(3):
            async with opened(made, node_id=list(FLEET)[1]):
                pass
        assert await judged_after(made, 5)


@scenario
async def test_who_is_turned_away_by_an_outage_is_not_judged_for_it():
    async with gone(FakeStore(**FLEET)) as made, dialled(made) as peer:
        challenge = await peer.hear()
        made.pass_time(35)
        made.store.down = True
        await peer.say(hello(challenge))
        assert (await peer.closed())[0] == protocol.TRY_LATER
        made.store.down = False
        assert not await judged_after(made, 39)
        assert await judged_after(made, 2)


@scenario
async def test_store_calls_run_in_threads_of_the_gateways_own():
    async with plane(run_blocking=gateway.threads(2)) as made, opened(made) as peer:
        await peer.say(protocol.Heartbeat())
        assert made.store.connectivity() == ["connected"]
