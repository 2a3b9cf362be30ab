"""How a command line ends where nobody reads it, nothing takes it, or somebody has enough: a status and a line."""

import os
import subprocess

import pytest
import seats
from canned import run, serving

FULL = "/dev/full"


@pytest.fixture
def server():
    with serving() as running:
        yield running.says({"items": [{"id": "node_1", "name": "n\u0101\u4e00"}]})


def shell(script: str, server, **env: str) -> "subprocess.CompletedProcess[str]":
    """A script of a shell in which `bc` is the command line."""
    told = {"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "biam_key_secret"}
    line = " ".join(seats.BINARY)
    return subprocess.run(
        ["bash", "-c", f'bc() {{ {line} "$@"; }}; {script}'],
        capture_output=True,
        text=True,
        env=os.environ | told | {"BETTER_COMPUTE_CONFIG": "/nonexistent/config.toml", "PYTHONUNBUFFERED": ""} | env,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("line", ["nodes list", "nodes list --json", "--help", "--version", "nodes list --help"])
def test_a_full_disk_is_told_in_a_line(server, line):
    ran = shell(f"bc {line} > {FULL}", server)
    assert (ran.returncode, ran.stderr) == (3, "cannot write the answer: No space left on device\n")


@pytest.mark.parametrize("line", ["nodes list", "nodes list --json", "--help"])
def test_who_closed_standard_output_wants_nothing_to_read(server, line):
    ran = shell(f"bc {line} >&-", server)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_reader_that_has_enough_is_no_refusal(server):
    server.answers.clear()
    server.says({"items": [{"id": f"node_{n}", "name": "x" * 200} for n in range(5000)]})
    ran = shell("bc nodes list --json | head -1; exit ${PIPESTATUS[0]}", server)
    assert (ran.returncode, ran.stdout, ran.stderr) == (141, "{\n", "")


def test_a_letter_that_the_terminal_has_not_is_escaped(server):
    ran = shell("bc nodes list --limit 1", server, PYTHONIOENCODING="latin-1")
    assert (ran.returncode, "n\\u0101\\u4e00" in ran.stdout) == (0, True), ran.stderr


def test_ctrl_c_is_not_the_servers_no(server):
    with seats.seated("profile", "set", "mine", env={"BETTER_COMPUTE_CONFIG": "/nonexistent/config.toml"}) as seat:
        seat.sees("Token")
        seat.press("\x03")
        assert seat.process.wait(seats.DEADLINE_S) == 130
    assert "Traceback" not in seat.written


JSON = "application/json"
HTML = b"<html>\x1b]52;c;aGk=\x07</html>"


@pytest.mark.parametrize("line", ["nodes list", "nodes list --all", "nodes get node_1", "nodes drain n --reason x"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (HTML, "text/html"),
        (HTML, "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"\xff", "application/json"),
    ],
    ids=["html", "html as json", "nested", "no utf-8"],
)
def test_what_is_no_answer_is_none(line, body, kind):
    """A page of whoever stands in between (a portal, a proxy) is neither shown nor a success."""
    with serving() as server:
        server.says(body, Content_Type=kind)
        ran = run(line, server)
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "the answer (HTTP 200) is not JSON" in ran.stderr


@pytest.mark.parametrize("body", ["\x1b[2J", 7, [], {"items": "all of them"}, {"items": {"a": 1}}])
def test_what_is_no_page_has_no_next_one(body):
    with serving() as server:
        ran = run("nodes list --all", server.says(body))
    assert (ran.exit_code, ran.stderr) == (3, "the answer is no page of a list: is this Better Compute?\n")


def test_a_refusal_that_is_nested_without_end_is_a_refusal():
    with serving() as server:
        ran = run("nodes get node_1", server.says(b"[" * 100_000, status=409))
    assert (ran.exit_code, ran.stderr) == (1, "HTTP_409: Conflict\n")


def test_an_answer_is_held_up_to_a_size(monkeypatch):
    monkeypatch.setattr("adapters.cli.client.MOST_BYTES", 1 << 20)
    with serving() as server:
        ran = run("nodes get node_1", server.says({"id": "x" * (1 << 20)}))
    assert (ran.exit_code, ran.stderr) == (3, "the answer (HTTP 200) is longer than 1 MiB\n")
