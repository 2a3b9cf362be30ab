"""Whose the sessions of a gateway are: its own while it beats, then whoever's took over its lease (domain.md §5)."""

import asyncio
from collections.abc import Iterator

import pytest
from fake_plane import NODE, Clock, FakeStore, Plane, gateway, opened, plane, scenario, until

from adapters.agent import protocol
from adapters.agent.ownership import NOBODY, Ownership
from adapters.ids import Mint
from adapters.postgres.leases import LOOK_S, TTL_S
from adapters.postgres.pool import Pool, pool
from commands import agents

OTHER = "node_" + "1" * 26


@pytest.fixture
def connections(database: str) -> Iterator[Pool]:
    with pool(database, 3) as made:
        yield made


def connected(connections: Pool, gateway: str, session: int, node_id: str = NODE) -> None:
    """The read model's row of a node that the log has as connected."""
    with connections.connection() as connection:
        connection.execute(
            """
            INSERT INTO nodes (id, tenant_id, words, power, site_id, name, role, provision_state, connectivity, gateway,
                session, schedulable, reasons, conditions, scalars, created_at, since, version, state)
            VALUES (%s, 't', 'n', 'on', 's', 'n', 'host', 'adopted', 'connected', %s,
                %s, true, '{}', '{}', '{}', 1, 1, 1, '')
            ON CONFLICT (id) DO UPDATE SET gateway = excluded.gateway, session = excluded.session
            """,
            (node_id, gateway, session),
        )


class House:
    """Two gateways on one database: one that answers, and one of another process, of which only its lease is seen."""

    def __init__(self, made: Plane, connections: Pool) -> None:
        self.made = made
        self.clock = Clock()
        self.elsewhere = gateway(made.store)
        self.mine = Ownership(made.gateway, connections, Mint(), self.clock)
        self.theirs = Ownership(self.elsewhere, connections, Mint(), self.clock)
        self.mine.beat()
        self.theirs.beat()

    async def pass_time(self, seconds: float, *alive: Ownership) -> None:
        for _ in range(round(seconds / LOOK_S)):
            self.clock.seconds += LOOK_S
            for ownership in alive:
                ownership.beat()
                ownership.look()
        await asyncio.sleep(0)

    def holds(self, node_id: str = NODE) -> bool:
        return node_id in self.made.gateway._leases._held


@scenario
async def test_the_log_says_which_gateway_holds_a_session():
    store = FakeStore()
    async with plane(store) as made:
        async with opened(made):
            assert store.state().gateway == made.gateway.id
        await until(lambda: store.connectivity() == ["connected", "disconnected"])
        assert store.state().gateway == ""


def test_sessions_of_a_gateway_that_beats_are_its_own(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            house = House(made, connections)
            connected(connections, house.elsewhere.id, agents.open_session(made.store, NODE))
            await house.pass_time(3 * TTL_S, house.mine, house.theirs)
            assert not house.holds()

    story()


def test_sessions_of_a_gateway_that_fell_silent_get_one_ttl_after_its_lease_lapsed(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            house = House(made, connections)
            connected(connections, house.elsewhere.id, agents.open_session(made.store, NODE))
            await house.pass_time(LOOK_S, house.mine, house.theirs)
            await house.pass_time(TTL_S - LOOK_S, house.mine)
            assert not house.holds()
            await house.pass_time(3 * LOOK_S, house.mine)
            assert house.holds()
            made.gateway.sweep()
            made.pass_time(39)
            await house.pass_time(LOOK_S, house.mine)
            assert made.store.connectivity() == ["connected"]
            made.pass_time(2)
            await made.gateway.record()
            assert made.store.connectivity() == ["connected", "unreachable"]

    story()


def test_who_came_back_meanwhile_is_simply_connected(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            house = House(made, connections)
            connected(connections, house.elsewhere.id, agents.open_session(made.store, NODE))
            await house.pass_time(2 * TTL_S, house.mine)
            assert house.holds()
            connected(connections, "gw_third", agents.open_session(made.store, NODE, "gw_third"))
            made.pass_time(60)
            await made.gateway.record()
            assert made.store.connectivity() == ["connected", "connected"]

    story()


def test_sessions_of_a_gateway_that_stopped_cleanly_are_adopted_at_once_by_one(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            house = House(made, connections)
            connected(connections, house.elsewhere.id, agents.open_session(made.store, NODE))
            third = Ownership(gateway(made.store), connections, Mint(), house.clock)
            await house.pass_time(LOOK_S, house.mine, house.theirs, third)
            house.theirs.release()
            await house.pass_time(2 * LOOK_S, house.mine, third)
            assert house.holds()
            held = [o for o in (house.mine, third) if o._others[house.elsewhere.id].fence]
            assert held == [house.mine]

    story()


def test_a_gateway_that_was_taken_over_lets_its_agents_go_and_takes_them_under_a_new_id(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made, opened(made) as peer:
            house = House(made, connections)
            former = made.gateway.id
            connected(connections, former, 1)
            await house.pass_time(2 * TTL_S, house.theirs)
            await house.pass_time(LOOK_S, house.mine, house.theirs)
            assert (await peer.closed())[0] == protocol.TRY_LATER
            async with opened(made):
                state = made.store.state()
                assert (state.session, state.gateway) == (2, made.gateway.id)
                assert made.gateway.id != former
                connected(connections, made.gateway.id, 2)
                await house.pass_time(2 * TTL_S, house.mine, house.theirs)
                assert made.gateway.id == state.gateway
            assert made.store.connectivity()[:2] == ["connected", "connected"], "nothing is said of who was let go"

    story()


def test_a_session_that_opens_while_its_gateway_is_taken_over_is_put_off() -> None:
    @scenario
    async def story():
        store = FakeStore()

        async def slow(work):
            done = work()
            if store.connectivity():
                made.gateway.go_on_as("gw_new")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return done

        async with plane(store, run_blocking=slow) as made:
            former = made.gateway.id
            with pytest.raises(Exception, match="1013"):
                async with opened(made):
                    pass
            assert (store.state().gateway, made.gateway.id) == (former, "gw_new")

    story()


def test_sessions_without_a_gateway_are_those_of_an_earlier_version_and_adopted_at_start(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            connected(connections, NOBODY, 1)
            house = House(made, connections)
            await house.pass_time(2 * LOOK_S, house.mine, house.theirs)
            assert house.holds()

    story()


def test_the_lease_of_a_gateway_without_sessions_is_let_go(connections: Pool) -> None:
    @scenario
    async def story():
        async with plane() as made:
            house = House(made, connections)
            connected(connections, house.elsewhere.id, 1)
            await house.pass_time(2 * TTL_S, house.mine)
            assert set(house.mine._others) == {house.elsewhere.id}
            connected(connections, made.gateway.id, 2)
            await house.pass_time(LOOK_S, house.mine)
            assert not house.mine._others
            connected(connections, NOBODY, 3)
            await house.pass_time(LOOK_S, house.mine)
            assert not house.mine._others

    story()
