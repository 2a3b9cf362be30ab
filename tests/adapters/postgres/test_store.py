"""What an append promises: all or nothing, and a no that has a name (architecture.md §2)."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from adapters.postgres.pool import pool
from adapters.postgres.store import EventStore
from commands.ports import NodeClosed, QueueAhead, Race
from domain import errors, node, offering, reservation
from domain import pool as pools
from domain.event import Append, Change, Fence, Seen
from facts import META, T0, Facts, at_once, differences, facts, new_id
from projections import table
from wire import wire

HOUR = 3_600_000


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, size=24) as made:
        yield made


def test_an_append_is_written_to_all_its_streams_or_to_none(given: Facts) -> None:
    pool_id = given.pool()
    taken, fresh = new_id("rsv"), new_id("rsv")
    given.append(taken, given.drafted(pool_id))
    changes = (Change(fresh, 0, (given.drafted(pool_id),)), Change(taken, 0, (given.drafted(pool_id),)))
    with pytest.raises(Race):
        given.store.append(Append(changes, META))
    assert given.store.load(fresh).version == 0
    assert given.store.load(taken).version == 1
    assert given.rows("SELECT 1 FROM catalog WHERE id = %s", fresh) == []


def test_of_two_appends_on_one_version_the_second_is_a_race(given: Facts) -> None:
    pool_id = given.pool()
    given.append(pool_id, pools.Renamed("a", "x", "root"), expected=1)
    with pytest.raises(Race):
        given.append(pool_id, pools.Renamed("b", "x", "root"), expected=1)
    assert given.store.load(pool_id).state.name == "a"


def test_a_pooled_connection_is_as_good_as_new_after_a_refused_append(database: str) -> None:
    with facts(database, size=1) as given:
        pool_id = given.pool()
        for _ in range(3):
            with pytest.raises(Race):
                given.append(pool_id, pools.Renamed("b", "x", "root"), expected=0)
            assert given.append(pool_id, pools.PolicyChanged(pools.Policy()))


def test_a_name_is_taken_once(given: Facts) -> None:
    pool_id = given.pool()
    named = given.store.load(pool_id).state.name
    with pytest.raises(errors.Conflict, match="name"):
        given.append(
            new_id("pool"),
            pools.Created(
                named, "site_1", "root", "eu", "metal-host", "H100", 80, "exclusive", "bcd", pools.Policy(), 1
            ),
        )


class TestBookings:
    def test_bookings_that_touch_are_both_taken(self, given: Facts) -> None:
        """O01."""
        pool_id = given.pool()
        node_id, (atom, *_) = given.node(pool_id)
        for start, end in ((10, 12), (12, 13), (9, 10)):
            given.place(given.placed(pool_id, node_id, [atom], T0 + start * HOUR, T0 + end * HOUR))
        assert len(given.bookings(atom)) == 3

    @pytest.mark.parametrize(
        ("start", "end"), [(-1, 1), (0, 1), (-HOUR, HOUR * 9), (HOUR, HOUR + 1), (HOUR * 2 - 1, HOUR * 3)]
    )
    def test_the_database_refuses_a_booking_that_overlaps_by_a_millisecond(
        self, given: Facts, start: int, end: int
    ) -> None:
        pool_id = given.pool()
        node_id, (atom, *_) = given.node(pool_id)
        given.place(given.placed(pool_id, node_id, [atom], T0, T0 + 2 * HOUR))
        with pytest.raises(errors.DoubleBooked):
            given.place(given.placed(pool_id, node_id, [atom], T0 + start, T0 + end))
        assert len(given.bookings(atom)) == 1

    def test_every_one_of_many_rivals_gets_a_typed_answer_and_one_gets_the_device(self, given: Facts) -> None:
        """O08: 20 at once for one device, ten times over: one placed, the others refused by name, none deadlocked."""
        pool_id = given.pool()
        offer_id = given.offer(pool_id, 20)
        node_id, (atom, *_) = given.node(pool_id)
        for turn in range(10):
            start = T0 + turn * HOUR
            wanted = [given.placed(pool_id, node_id, [atom], start, start + HOUR, scope=offer_id) for _ in range(20)]
            answers = at_once([lambda placed=placed: given.place(placed) for placed in wanted])
            refused = [answer for answer in answers if isinstance(answer, Exception)]
            assert {type(answer) for answer in refused} == {errors.DoubleBooked}
            assert len(refused) == 19
        assert len(given.bookings(atom)) == 10
        assert given.rows("SELECT count(*) FROM quota_claims") == [(10,)]

    def test_rivals_for_overlapping_gangs_never_deadlock(self, given: Facts) -> None:
        """Atoms of two nodes, asked for in opposite orders: the gates are taken in one."""
        pool_id = given.pool()
        here, there = given.node(pool_id, 1), given.node(pool_id, 1)
        for turn in range(8):
            start = T0 + turn * HOUR

            def gang(first: tuple[str, list[str]], second: tuple[str, list[str]], start: int = start) -> str:
                one = given.placed(pool_id, first[0], first[1], start, start + HOUR)
                two = given.placed(pool_id, second[0], second[1], start, start + HOUR)
                allocations = (*one.allocations, *two.allocations)
                return given.place(reservation.Placed(**_fields(one) | {"allocations": allocations}))

            orders = [(here, there), (there, here)] * 4
            answers = at_once([lambda pair=pair: gang(*pair) for pair in orders])
            refused = [type(answer) for answer in answers if isinstance(answer, Exception)]
            assert refused == [errors.DoubleBooked] * 7

    def test_of_a_gang_all_is_booked_or_nothing(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        given.place(given.placed(pool_id, node_id, atoms[:1], T0, T0 + HOUR))
        with pytest.raises(errors.DoubleBooked):
            given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))
        assert given.rows("SELECT count(*) FROM device_bookings") == [(1,)]

    def test_scalars_are_refused_beyond_what_the_node_sells(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        given.place(given.placed(pool_id, node_id, atoms[:1], T0, T0 + HOUR, scalars={"vcpu": 40}))
        given.place(given.placed(pool_id, node_id, atoms[1:2], T0 + HOUR, T0 + 2 * HOUR, scalars={"vcpu": 64}))
        with pytest.raises(errors.DoubleBooked, match="vcpu"):
            given.place(given.placed(pool_id, node_id, atoms[2:3], T0, T0 + 1, scalars={"vcpu": 25}))
        given.place(given.placed(pool_id, node_id, atoms[2:3], T0, T0 + 1, scalars={"vcpu": 24}))


def _fields(placed: reservation.Placed) -> dict[str, object]:
    return {name: getattr(placed, name) for name in placed.__struct_fields__}


class TestGates:
    def test_a_node_that_left_or_closed_takes_no_booking(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        given.append(node_id, node.SchedulabilityChanged({"Cordoned": 1}))
        with pytest.raises(NodeClosed):
            given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))

    def test_a_booking_for_another_layout_than_the_nodes_is_refused(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        with pytest.raises(NodeClosed):
            given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR, layout=2))

    @pytest.mark.parametrize("act", [node.Moved("retiring", "Retired", 1), node.Assigned("host", None, None, "pool_1")])
    def test_a_node_with_bookings_neither_retires_nor_moves(self, given: Facts, act: node.Events) -> None:
        """O13; the refusal names the bookings."""
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        reservation_id = given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR))
        with pytest.raises(errors.Conflict) as refusal:
            given.append(node_id, act)
        assert refusal.value.extra["reservations"] == (reservation_id,)

    def test_a_retirement_and_a_booking_never_cross(self, given: Facts) -> None:
        """O14: whatever comes first, there is no booking on a retired node."""
        pool_id = given.pool()
        for _ in range(12):
            node_id, atoms = given.node(pool_id, 1)
            retiring = (node.SchedulabilityChanged({"Retiring": 1}), node.Moved("retiring", "Retired", 1))
            answers = at_once(
                [
                    lambda node_id=node_id, events=retiring: given.append(node_id, *events),
                    lambda node_id=node_id, atoms=atoms: given.place(
                        given.placed(pool_id, node_id, atoms, T0, T0 + HOUR)
                    ),
                ]
            )
            assert sum(isinstance(answer, Exception) for answer in answers) == 1

    def test_what_counted_on_a_node_comes_before_what_moves_it_on_or_not_at_all(self, given: Facts) -> None:
        pool_id = given.pool()
        for session in range(1, 13):
            node_id, _ = given.node(pool_id, 1)
            version = given.store.load(node_id).version
            counting = Append(
                (Change(new_id("rsv"), 0, (given.drafted(pool_id),)),), META, None, (Seen(node_id, version),)
            )
            opening = node.ConnectivityChanged("connected", session, 1)
            opened, counted = at_once(
                [
                    lambda node_id=node_id, event=opening: given.append(node_id, event),
                    lambda append=counting: given.store.append(append),
                ]
            )
            assert isinstance(opened, int)
            assert isinstance(counted, Race) or counted < opened
            with pytest.raises(Race):
                given.store.append(
                    msgspec.structs.replace(counting, changes=(Change(new_id("rsv"), 0, (given.drafted(pool_id),)),))
                )

    def test_nobody_passes_an_admitted_claim_that_waits(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, atoms = given.node(pool_id)
        given.queue(pool_id, None, 8, T0, T0 + HOUR)
        with pytest.raises(QueueAhead):
            given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR, since=T0 + 1))
        given.place(given.placed(pool_id, node_id, atoms, T0, T0 + HOUR, priority=1, since=T0 + 1))

    def test_a_pool_with_nodes_or_waiters_is_not_retired(self, given: Facts) -> None:
        busy, waited_for = given.pool(), given.pool()
        node_id, _ = given.node(busy)
        reservation_id = given.queue(waited_for, None, 1, T0, T0 + HOUR)
        with pytest.raises(errors.Conflict) as refusal:
            given.append(busy, pools.Retired("x", "root", 1))
        assert refusal.value.extra["nodes"] == (node_id,)
        with pytest.raises(errors.Conflict) as refusal:
            given.append(waited_for, pools.Retired("x", "root", 1))
        assert refusal.value.extra["reservations"] == (reservation_id,)

    def test_a_retired_pool_is_offered_to_nobody(self, given: Facts) -> None:
        pool_id = given.pool()
        given.append(pool_id, pools.Retired("x", "root", 1))
        with pytest.raises(errors.Conflict):
            given.offer(pool_id, 1)


class TestQuota:
    def test_concurrent_claims_never_pass_the_limit(self, given: Facts) -> None:
        """O16: quota 8, used 4, five requests of 2 at once: exactly two are let in."""
        pool_id = given.pool()
        for _ in range(8):
            offer_id = given.offer(pool_id, 8, tenant=new_id("t"))
            given.queue(pool_id, offer_id, 4, T0, T0 + HOUR)
            answers = at_once([lambda scope=offer_id: given.queue(pool_id, scope, 2, T0, T0 + HOUR)] * 5)
            refused = [answer for answer in answers if isinstance(answer, Exception)]
            assert [type(answer) for answer in refused] == [errors.QuotaExceeded] * 3
            used = given.rows("SELECT sum(amount)::int FROM quota_claims WHERE scope = %s", offer_id)
            assert used == [(8,)]

    def test_the_refusal_names_resource_limit_and_peak(self, given: Facts) -> None:
        pool_id = given.pool()
        offer_id = given.offer(pool_id, 8)
        given.queue(pool_id, offer_id, 7, T0, T0 + HOUR)
        with pytest.raises(errors.QuotaExceeded) as refusal:
            given.queue(pool_id, offer_id, 2, T0 + 1, T0 + HOUR + 1)
        assert refusal.value.extra == {"kind": "offering", "resource": "gpu", "limit": 8, "peak": 9}

    def test_it_is_the_peak_over_time_that_counts(self, given: Facts) -> None:
        """Claims one after the other do not add up, claims that touch neither; one across both meets the higher."""
        pool_id = given.pool()
        offer_id = given.offer(pool_id, 8)
        given.queue(pool_id, offer_id, 6, T0, T0 + HOUR)
        given.queue(pool_id, offer_id, 5, T0 + HOUR, T0 + 2 * HOUR)
        with pytest.raises(errors.QuotaExceeded) as refusal:
            given.queue(pool_id, offer_id, 3, T0, T0 + 2 * HOUR)
        assert refusal.value.extra["peak"] == 9
        given.queue(pool_id, offer_id, 3, T0 + HOUR, T0 + 2 * HOUR)
        given.queue(pool_id, offer_id, 2, T0, T0 + HOUR)

    def test_what_an_offering_does_not_name_it_does_not_grant(self, given: Facts) -> None:
        pool_id = given.pool()
        offer_id = new_id("poff")
        given.append(offer_id, offering.Offered(pool_id, "root", "acme", {"nic.vf": 4}, 0, False, 1))
        with pytest.raises(errors.QuotaExceeded) as refusal:
            given.queue(pool_id, offer_id, 1, T0, T0 + HOUR)
        assert refusal.value.extra["limit"] == 0

    def test_a_lowered_limit_moves_no_claim_and_admits_nothing_more(self, given: Facts) -> None:
        pool_id = given.pool()
        offer_id = given.offer(pool_id, 8)
        given.queue(pool_id, offer_id, 6, T0, T0 + HOUR)
        given.append(offer_id, offering.Changed({"gpu": 4}, 0, False))
        with pytest.raises(errors.QuotaExceeded):
            given.queue(pool_id, offer_id, 1, T0, T0 + HOUR)
        assert given.rows("SELECT sum(amount)::int FROM quota_claims") == [(6,)]

    @pytest.mark.parametrize(
        "end", [reservation.Cancelled("x", T0), reservation.Expired("x", T0), reservation.Failed("x", T0, False)]
    )
    def test_a_final_state_holds_no_quota(self, given: Facts, end: reservation.Events) -> None:
        pool_id = given.pool()
        offer_id = given.offer(pool_id, 1)
        reservation_id = given.queue(pool_id, offer_id, 1, T0, T0 + HOUR)
        given.append(reservation_id, end)
        given.queue(pool_id, offer_id, 1, T0, T0 + HOUR)


class TestEndings:
    def test_an_ended_booking_runs_until_the_next_one_or_for_ever(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, (first, second, *_) = given.node(pool_id)
        ended = given.place(given.placed(pool_id, node_id, [first, second], T0, T0 + HOUR))
        given.place(given.placed(pool_id, node_id, [first], T0 + 5 * HOUR, T0 + 6 * HOUR))
        given.bind(ended)
        given.release(ended, T0 + 1000)
        assert given.bookings(first)[0] == (T0, T0 + 5 * HOUR)
        assert given.bookings(second) == [(T0, None)]
        given.tear_down(ended, T0 + 2000)
        assert given.bookings(first)[0] == given.bookings(second)[0] == (T0, T0 + 2000)

    def test_an_atom_not_proved_free_stays_taken_when_the_booking_behind_is_cancelled(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, (atom, *_) = given.node(pool_id)
        ended = given.place(given.placed(pool_id, node_id, [atom], T0, T0 + HOUR))
        behind = given.place(given.placed(pool_id, node_id, [atom], T0 + HOUR, T0 + 2 * HOUR))
        given.bind(ended)
        given.release(ended, T0 + HOUR)
        given.append(behind, reservation.Cancelled("x", T0 + HOUR))
        assert given.bookings(atom) == [(T0, None)]
        with pytest.raises(errors.DoubleBooked):
            given.place(given.placed(pool_id, node_id, [atom], T0 + 3 * HOUR, T0 + 4 * HOUR))

    def test_a_running_booking_is_not_touched_when_the_one_behind_is_cancelled(self, given: Facts) -> None:
        pool_id = given.pool()
        node_id, (atom, *_) = given.node(pool_id)
        given.bind(given.place(given.placed(pool_id, node_id, [atom], T0, T0 + HOUR)))
        behind = given.place(given.placed(pool_id, node_id, [atom], T0 + HOUR, T0 + 2 * HOUR))
        given.append(behind, reservation.Cancelled("x", T0))
        assert given.bookings(atom) == [(T0, T0 + HOUR)]

    def test_release_and_proof_in_one_append_free_the_atom(self, given: Facts) -> None:
        """Statements of a stream keep the order of its events."""
        pool_id = given.pool()
        node_id, (atom, *_) = given.node(pool_id)
        placed = given.placed(pool_id, node_id, [atom], T0, T0 + HOUR)
        reservation_id = given.place(placed)
        given.bind(reservation_id)
        at = T0 + 1000
        given.append(
            reservation_id,
            reservation.ReleaseStarted("Released", at, {}),
            reservation.TornDown(placed.allocations[0].id, node_id, at),
            reservation.Released("Released", at),
        )
        assert given.bookings(atom) == [(T0, at)]


class TestFence:
    def test_a_write_under_an_old_epoch_is_refused_whole(self, given: Facts) -> None:
        pool_id = given.pool()
        given.rows("INSERT INTO coordination_leases VALUES ('pool:1', 'b', 7, 0) RETURNING 1")
        with pytest.raises(errors.Fenced):
            given.append(pool_id, pools.PolicyChanged(pools.Policy()), fence=Fence("pool:1", 6))
        assert given.store.load(pool_id).version == 1
        given.append(pool_id, pools.PolicyChanged(pools.Policy()), fence=Fence("pool:1", 7))

    def test_a_takeover_waits_for_writes_under_the_old_epoch_and_a_beat_does_not(
        self, given: Facts, connection: psycopg.Connection
    ) -> None:
        given.rows("INSERT INTO coordination_leases VALUES ('pool:1', 'a', 1, 0) RETURNING 1")
        connection.execute("SET lock_timeout = '50ms'")
        with given.connections.connection() as writer, writer.transaction():
            writer.execute("SELECT 1 FROM coordination_leases WHERE name = 'pool:1' AND epoch = 1 FOR KEY SHARE")
            connection.execute("UPDATE coordination_leases SET beats = beats + 1 WHERE name = 'pool:1'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute("UPDATE coordination_leases SET epoch = epoch + 1 WHERE name = 'pool:1'")


class TestLostAnswers:
    def test_an_append_whose_commits_answer_was_lost_is_recognised_as_done(self, database: str, tmp_path: Path) -> None:
        with wire(database, tmp_path) as (cut, through), facts(through, size=2) as given:
            pool_id = given.pool()
            cut.lose_answer()
            position = given.append(pool_id, pools.Renamed("after", "x", "root"))
            assert cut.answers_lost == 1
            assert given.store.history(pool_id)[-1].position == position
            assert given.store.load(pool_id).version == 2

    def test_an_append_that_never_reached_the_server_is_refused_as_unavailable(self, database: str) -> None:
        nowhere = make_conninfo(database, host="/nonexistent")
        with pool(nowhere, 1) as connections:
            connections.timeout = 0.05
            store = EventStore(connections, table.INLINE, "root", new_id)
            with pytest.raises(errors.Unavailable):
                store.append(Append((Change("pool_1", 0, (pools.Renamed("a", "b", "c"),)),), META))


def test_after_all_of_it_the_log_gives_the_same_rows(given: Facts, database: str) -> None:
    pool_id = given.pool()
    node_id, atoms = given.node(pool_id)
    first = given.place(given.placed(pool_id, node_id, atoms[:2], T0, T0 + HOUR))
    given.bind(first)
    given.release(first, T0 + 5)
    given.tear_down(first, T0 + 9)
    assert differences(database) == []
