"""Ids complete from the server, within a second, or not at all."""

import socket
import time

import click
import pytest
from canned import PROBLEM, REGISTRY, serving
from click.shell_completion import ShellComplete

from adapters.cli import completing, fields, main
from adapters.registry import OPERATIONS

NODES = {"items": [{"id": "node_2", "name": "h100-2", "state": "up"}, {"id": "node_1", "name": "h100-1"}]}


@pytest.fixture
def server(monkeypatch):
    with serving() as running:
        monkeypatch.setenv("BETTER_COMPUTE_SERVER", running.address)
        monkeypatch.setenv("BETTER_COMPUTE_TOKEN", "biam_key_secret")
        monkeypatch.setenv("BETTER_COMPUTE_CONFIG", "/nonexistent/config.toml")
        yield running


def completed(words: str, incomplete: str) -> list[tuple[str, str | None]]:
    root = main.Root(registry=lambda: REGISTRY, static={}, groups={"nodes": "Machines.", "commands": "Orders."})
    found = ShellComplete(root, {}, "better-compute", "_BETTER_COMPUTE_COMPLETE").get_completions(
        words.split(), incomplete
    )
    return [(item.value, item.help) for item in found]


def test_an_id_completes_with_what_a_person_calls_it(server):
    server.says(NODES)
    assert completed("nodes get", "node_") == [("node_2", "h100-2, up"), ("node_1", "h100-1")]
    assert server.asked[0].path == "/v1/nodes?limit=1000&order=desc"
    assert server.asked[0].headers["Authorization"] == "Bearer biam_key_secret"


def test_where_no_id_begins_so_a_name_stands_for_it(server):
    server.says(NODES)
    assert completed("nodes cordon", "h100-1") == [("node_1", "h100-1")]


def test_what_is_typed_names_the_server_and_the_token(server, monkeypatch):
    monkeypatch.setenv("BETTER_COMPUTE_SERVER", "http://127.0.0.1:1")
    server.says(NODES)
    assert len(completed(f"nodes get --server {server.address} --token typed", "")) == 2
    assert server.asked[0].headers["Authorization"] == "Bearer typed"


def test_where_a_name_is_taken_names_complete_and_else_ids(server):
    server.says({"items": [{"id": "pool_1", "name": "h100"}, {"id": "pool_2", "name": "l4"}]})
    root = main.Root(static={"reserve": main.Root().static["reserve"]})
    for incomplete, values in (("", ["h100", "l4"]), ("h", ["h100"]), ("pool_2", ["pool_2"])):
        complete = ShellComplete(root, {}, "better-compute", "_BETTER_COMPUTE_COMPLETE")
        assert [item.value for item in complete.get_completions(["reserve", "--pool"], incomplete)] == values


@pytest.mark.parametrize("body", [{}, {"items": None}, {"items": [{"id": 1}, None]}, [], "x"])
def test_an_answer_that_is_no_list_completes_nothing(server, body):
    server.says(body)
    assert completed("nodes get", "") == []


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_server_that_refuses_completes_nothing_and_says_nothing(server, capsys, status):
    server.says(PROBLEM, status=status)
    assert (completed("nodes get", ""), capsys.readouterr()) == ([], ("", ""))


@pytest.mark.parametrize("words", ["nodes get --server ftp://x", "nodes get --profile absent"])
def test_a_line_that_is_wrong_already_completes_nothing(server, words):
    server.says(NODES)
    assert (completed(words, ""), server.asked) == ([], [])


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(completing, "WITHIN_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        assert completed(f"nodes get --server http://127.0.0.1:{silent.getsockname()[1]}", "") == []
    assert time.monotonic() - begun < 5


def test_whatever_completes_asks_a_list_that_there_is(server):
    server.says(NODES)
    for operation in OPERATIONS.values():
        for name, field in fields.of(operation).items():
            if completes := completing.of(operation, OPERATIONS, field):
                ctx = click.Context(click.Command("x"))
                ctx.params = {"_server": server.address}
                assert [item.value for item in completes(ctx, click.Argument([name]), "")] == ["node_2", "node_1"]
    paths = {asked.path.partition("?")[0] for asked in server.asked}
    assert paths <= {one.path for one in OPERATIONS.values() if one.name.endswith(".list")}


def test_every_id_that_names_a_thing_with_a_list_completes():
    bare = {
        f"{operation.name}.{field.encode_name}"
        for operation in OPERATIONS.values()
        for field in fields.of(operation).values()
        if field.encode_name in ("id", *completing.LISTS) and completing.of(operation, OPERATIONS, field) is None
    }
    assert bare == {
        *("quotas.set.id", "quotas.get.id", "budgets.set.id", "budgets.get.id"),
        *("audit.stream.id", "audit.state.id", "iam.resolve.id", "offerings.get.id"),
    }
