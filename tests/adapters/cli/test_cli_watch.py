"""`--watch` shows what changes until Ctrl-C, and outlives a server that fails for a while."""

import json
import re
import time

import pytest
from canned import PROBLEM, REGISTRY, Server, run, serving

from adapters.cli import fitting, watching

ONE, TWO = ({"items": [{"id": "node_1", "name": name}]} for name in ("a", "b"))
WATCHED = "nodes list --watch 0.1"


@pytest.fixture
def server():
    with serving() as running:
        yield running


def until_ctrl_c(server: Server, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """The person at the keyboard looks so often, then presses Ctrl-C."""
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) >= looks:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching, "pause", pause)


def blocks(text: str) -> list[str]:
    return re.split(r"== [0-9T:Z-]+\n", text)[1:]


def test_a_block_is_told_for_each_change_and_ctrl_c_is_no_failure(server, monkeypatch):
    until_ctrl_c(server, monkeypatch, 4)
    server.says(ONE).says(ONE).says(TWO)
    ran = run(WATCHED, server)
    assert ran.exit_code == 0
    assert blocks(ran.stdout) == [
        "ID      NAME\nnode_1  a\n\n",
        "ID      NAME\nnode_1  b\n\n",
    ]


def test_a_program_gets_a_line_of_json_for_each_change(server, monkeypatch):
    until_ctrl_c(server, monkeypatch, 4)
    server.says(ONE).says(ONE).says(TWO)
    assert [json.loads(line) for line in run(f"{WATCHED} --json", server).stdout.splitlines()] == [ONE, TWO]


def test_a_server_that_fails_is_asked_again_and_told_of_once(server, monkeypatch):
    until_ctrl_c(server, monkeypatch, 5)
    server.says(ONE).says(PROBLEM, status=503).says(PROBLEM, status=429).says(TWO)
    ran = run(f"{WATCHED} --json", server)
    assert (ran.exit_code, len(ran.stdout.splitlines())) == (0, 2)
    first, *rest = ran.stderr.splitlines()
    assert re.fullmatch(r"\S+Z CONFLICT: it is gone", first)
    assert rest[-1].endswith("the server answers again")
    assert ran.stderr.count("CONFLICT") == 1


@pytest.mark.parametrize(("status", "left"), [(503, 3), (404, 1)])
def test_what_fails_at_once_is_not_watched(server, status, left):
    ran = run(WATCHED, server.says(PROBLEM, status=status))
    assert (ran.exit_code, len(server.asked)) == (left, 1)


def test_a_refusal_ends_it(server, monkeypatch):
    until_ctrl_c(server, monkeypatch, 9)
    server.says(ONE).says(PROBLEM, status=404)
    assert run(WATCHED, server).exit_code == 1


@pytest.mark.parametrize("line", ["nodes get --watch node_1", "nodes get node_1 --watch", "nodes get --watch=2 node_1"])
def test_its_pause_may_be_left_out_wherever_it_stands(server, monkeypatch, line):
    until_ctrl_c(server, monkeypatch, 1)
    assert run(line, server.says({"id": "node_1"})).exit_code == 0
    assert server.asked[0].path == "/v1/nodes/node_1"


@pytest.mark.parametrize("line", ["reservations get r --watch --wait", "nodes list --watch --as-of @5"])
def test_it_goes_with_neither_an_end_nor_the_past(server, line):
    assert (run(line, server).exit_code, server.asked) == (2, [])


def test_every_page_is_watched(server, monkeypatch):
    until_ctrl_c(server, monkeypatch, 2)
    server.says(ONE | {"nextCursor": "c"}).says(TWO).says(ONE | {"nextCursor": "c"}).says(TWO)
    assert run(f"{WATCHED} --all", server).exit_code == 0
    assert [asked.path for asked in server.asked] == 2 * ["/v1/nodes?limit=1000", "/v1/nodes?limit=1000&cursor=c"]


def test_a_frame_is_no_larger_than_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    rows = [{"id": f"node_{n}", "name": "\x1b[2J" * 20, "joinedAt": 0} for n in range(20)]
    watching.paint(REGISTRY["nodes.list"], {"items": rows}, 2, "")
    lines = capsys.readouterr().out.removeprefix("\x1b[H").removesuffix("\x1b[J").split("\x1b[K\n")[:-1]
    assert len(lines) <= 5
    assert all(len(line) <= 40 and "\x1b" not in line for line in lines)
    assert lines[-1].endswith("more lines") or lines[-2].endswith("more lines")


def test_a_frame_says_since_when_the_server_is_silent(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "40")
    watching.paint(REGISTRY["nodes.get"], {"id": "node_1"}, 2, "no answer since 12:00: out of reach")
    assert "no answer since 12:00: out of reach\x1b[K" in capsys.readouterr().out


NOW = time.mktime((2026, 1, 1, 0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("away", "told"),
    [
        (0, "now"),
        (-1, "1s ago"),
        (119.5, "in 119s"),
        (-120, "2m ago"),
        (3600 * 2, "in 2h"),
        (-86_400 * 3, "3d ago"),
        (86_400 * 800, "in 2y"),
    ],
)
def test_an_instant_that_has_no_room_is_told_as_an_age(away, told):
    assert fitting.age(round((NOW + away) * 1000), NOW) == told
