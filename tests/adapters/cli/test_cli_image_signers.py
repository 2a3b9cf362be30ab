"""One line of the allowlist is changed at a time, though it is set whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canned import PROBLEM, Server, serving
from click.testing import CliRunner, Result

from adapters.cli import main

PEM = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
LINE = {"name": "ci", "publicKey": "its key", "keyId": "ab12", "addedBy": "who", "addedAt": 1}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def run(line: list[Any], server: Server) -> Result:
    environment = {"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "biam_key_secret"}
    return CliRunner().invoke(main.Root(), ["image-signers", *map(str, line)], env=environment)


def key(tmp_path: Path, pem: str = PEM) -> Path:
    (tmp_path / "key.pub").write_text(pem)
    return tmp_path / "key.pub"


def test_allow_adds_a_line_to_those_that_stay(server: Server, tmp_path: Path) -> None:
    server.says({"signers": [LINE], "version": 4}).says({"signers": [], "version": 5})
    assert run(["allow", "cosign", key(tmp_path)], server).exit_code == 0
    sent = server.asked[1]
    assert sent.headers["If-Match"] == '"4"'
    assert sent.body["signers"] == [{"name": "ci", "publicKey": "its key"}, {"name": "cosign", "publicKey": PEM}]


def test_disallow_takes_a_line_off(server: Server) -> None:
    server.says({"signers": [LINE], "version": 4}).says({"signers": [], "version": 5})
    assert run(["disallow", "AB12"], server).exit_code == 0
    assert server.asked[1].body == {"signers": []}


def test_a_key_that_is_on_no_line_changes_nothing(server: Server) -> None:
    server.says({"signers": [LINE], "version": 4})
    ran = run(["disallow", "cd34"], server)
    assert (ran.exit_code, ran.stderr, len(server.asked)) == (1, "cd34 is on no line of the list\n", 1)


def test_a_list_that_somebody_else_changed_meanwhile_stays(server: Server, tmp_path: Path) -> None:
    server.says({"signers": [], "version": 0}).says(PROBLEM, status=412)
    assert run(["allow", "ci", key(tmp_path)], server).exit_code == 1


def test_a_private_key_goes_nowhere(server: Server, tmp_path: Path) -> None:
    ran = run(["allow", "ci", key(tmp_path, PEM.replace("PUBLIC", "PRIVATE"))], server)
    assert (ran.exit_code, server.asked) == (1, [])
