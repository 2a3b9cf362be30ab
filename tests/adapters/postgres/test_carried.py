"""A state of the past that goes on from what a row version carries is the one that the whole stream folds to."""

from adapters.postgres.pool import Pool, pool
from adapters.postgres.runner import Runner
from domain import node, node_view
from facts import Facts
from projections import documents, table

LONG = 260
SHORT = 24


def lived(connections: Pool, events: int) -> tuple[Facts, str]:
    """A node whose facets changed until one of its versions carried a state, and after that no more."""
    facts = Facts(connections)
    node_id, _ = facts.node(facts.pool(), 1)
    carried, version = 0, facts.store.load(node_id).version
    while version < events:
        if carried:
            facts.append(node_id, node.Labelled({"n": str(version)}))
        else:
            facts.append(node_id, node.ConnectivityChanged("lost" if version % 2 else "connected", 1, 1))
        version = facts.store.load(node_id).version
        carried = carried or (version if documents.carries(node_id, version) else 0)
    running = Runner(connections, table.ASYNC)
    running.load()
    running.apply(facts.store.log(0, 2**60, 100_000))
    assert not running.failures
    return facts, node_id


def same(facts: Facts, node_id: str) -> None:
    """At each of its positions; whether it is told where the version ended, or not."""
    spans = facts.rows(f"SELECT from_position, to_position, to_version FROM nodes_history WHERE id = '{node_id}'")
    for recorded in facts.store.history(node_id):
        position = recorded.position
        (until,) = (ended for since, to, ended in spans if since <= position and (to is None or position < to))
        expected = facts.store.load_as_of(node_id, position)
        for told in (until or 0, 0):
            (found,) = facts.store.load_all_as_of([node_id], position, "nodes", [told])
            shown = [node_view.view(node_id, one.state, one.version) for one in (found, expected)]
            assert shown[0] == shown[1], position


def test_long_after_the_last_state_that_was_carried_a_snapshot_is_nearer(database: str) -> None:
    with pool(database, 3) as connections:
        same(*lived(connections, LONG))


def test_an_event_of_an_old_shape_is_read_as_ever(database: str) -> None:
    with pool(database, 3) as connections:
        facts, node_id = lived(connections, SHORT)
        facts.append(node_id, node.MaintenanceEntered("fan", 1))
        with connections.connection() as connection:
            connection.execute("ALTER TABLE stored_events DISABLE TRIGGER ALL")
            connection.execute(
                "UPDATE stored_events SET topic = 'node.maintenance_entered.1',"
                " state = convert_to(replace(convert_from(state, 'UTF8'), 'entered.2', 'entered.1'), 'UTF8')"
                " WHERE topic = 'node.maintenance_entered.2'"
            )
            connection.execute("ALTER TABLE stored_events ENABLE TRIGGER ALL")
        fresh = Facts(connections)
        (found,) = fresh.store.load_all_as_of([node_id], 2**60, "nodes", [0])
        assert [stay.reason for stay in found.state.maintenance] == ["fan"]
        assert found.version == SHORT + 1
