"""What scripts pick from an answer: ids alone, of the rows whose fields have a value."""

import pytest
from canned import run, serving

from adapters.cli import picking
from adapters.registry import OPERATIONS


@pytest.fixture
def server():
    with serving() as running:
        yield running


NODES = {"items": [{"id": "node_1", "name": "a", "ready": True}, {"id": "node_2", "name": "b", "ready": False}]}


def test_ids_alone_are_printed_one_a_line(server):
    assert run("nodes list --id", server.says(NODES)).stdout == "node_1\nnode_2\n"


def test_of_one_thing_its_id_is_printed(server):
    assert run("nodes get node_1 --id", server.says({"id": "node_1"})).stdout == "node_1\n"


def test_a_row_is_picked_by_what_its_fields_show(server):
    server.says(NODES)
    assert run("nodes list --where name=b --id", server).stdout == "node_2\n"
    assert run("nodes list --where ready=yes --where name=a --id", server).stdout == "node_1\n"
    assert "node_1" not in run("nodes list --where name=b --json", server).stdout


def test_another_field_is_printed_as_it_is(server):
    server.says({"id": "x", "note": "a\nb\n", "in": {"side": 7}})
    assert run("nodes get x --print note", server).stdout == "a\nb\n"
    assert run("nodes get x --print in.side", server).stdout == "7\n"
    ran = run("nodes get x --print gone", server)
    assert (ran.exit_code, ran.stderr) == (1, "nothing there has 'gone'\n")


def test_that_no_row_was_picked_is_not_that_rows_lack_the_field(server):
    ran = run("nodes list --where name=z --id", server.says(NODES))
    assert (ran.exit_code, ran.stderr) == (1, "there is no row, so no 'id'\n")


def test_rows_are_picked_from_all_pages(server):
    server.says(NODES | {"nextCursor": "c2"}).says({"items": [{"id": "node_3", "name": "b"}]})
    assert run("nodes list --where name=b --id", server).stdout == "node_2\nnode_3\n"


def test_nothing_picked_is_a_failure_that_a_script_sees(server):
    ran = run("nodes list --where name=z --id", server.says(NODES))
    assert (ran.exit_code, ran.stdout) == (1, "")


@pytest.mark.parametrize("wrong", ["name", "=b"])
def test_a_condition_without_a_field_or_value_is_wrong_usage(server, wrong):
    ran = run(["nodes", "list", "--where", wrong], server)
    assert (ran.exit_code, server.asked) == (2, [])


def test_an_id_is_offered_where_the_answer_has_one():
    offered = {name for name, one in OPERATIONS.items() if "--id" in flags(one)}
    assert offered >= {"nodes.list", "nodes.get", "nodes.devices", "reservations.create", "audit.events"}
    assert not offered & {"pools.evict", "bookings.list", "capacity.list", "nodes.history", "reservations.states"}


def test_nothing_is_picked_from_a_stream():
    assert flags(OPERATIONS["events.stream"]) == flags(OPERATIONS["audit.export"]) == set()


def flags(operation):
    return {flag for option in picking.options(operation) for flag in option.opts}
