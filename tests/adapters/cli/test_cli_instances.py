"""What an instance wrote, and what it writes from now on."""

from collections.abc import Iterator
from typing import Any

import pytest
from canned import PROBLEM, Server, serving
from click.testing import CliRunner, Result

from adapters.cli import instances, main


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def run(line: str, server: Server) -> Result:
    environment = {"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "biam_key_secret"}
    return CliRunner().invoke(main.Root(), ["instances", *line.split()], env=environment)


def told(total: int, tail: str) -> dict[str, Any]:
    return {"totalBytes": total, "tail": tail}


def test_the_console_is_printed_as_it_is(server: Server) -> None:
    server.says(told(13, "boot\nlogin: é"))
    ran = run("console ins_1", server)
    assert (ran.exit_code, ran.stdout) == (0, "boot\nlogin: é")
    assert server.asked[0].path == "/v1/instances/ins_1/console"


def test_an_instance_that_is_not_there_has_no_console(server: Server) -> None:
    server.says(PROBLEM, status=404)
    ran = run("console ins_1", server)
    assert (ran.exit_code, ran.stdout) == (1, "")


def test_a_console_is_followed_until_the_server_refuses(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "PAUSE_SECONDS", 0.001)
    for answer in (told(4, "boot"), told(4, "boot"), told(11, "boot\nlogin:")):
        server.says(answer)
    server.says(PROBLEM, status=404)
    ran = run("console ins_1 --follow", server)
    assert (ran.exit_code, ran.stdout) == (1, "boot\nlogin:")


@pytest.mark.parametrize(
    ("seen", "now", "news"),
    [
        (told(4, "boot"), told(4, "boot"), ""),
        (told(4, "boot"), told(6, "boot\n>"), "\n>"),
        (told(4, "boot"), told(9, "\n>abc"), "\n>abc"),
        (told(4, "boot"), told(100, "abc"), "abc"),
        (told(90, "long ago"), told(2, "ok"), "ok"),
    ],
)
def test_what_came_since(seen: dict[str, Any], now: dict[str, Any], news: str) -> None:
    assert instances.news(seen, now) == news
