"""What `serve` refuses before anything starts, and what it clears away."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from adapters.cli import serve
from adapters.settings import Settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The starts that would have been: no database, no server."""
    starts: list[Any] = []
    monkeypatch.setattr(serve, "_run", lambda *given: starts.append(given))
    return starts


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that the server's account can reach too, where root runs the tests."""
    made = Path(tempfile.mkdtemp(prefix="better-compute-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def run(home: Path, *arguments: str) -> Result:
    given = ("--data-dir", str(home), "--database-url", "postgresql:///none", *arguments)
    return CliRunner().invoke(serve.serve, given)


def test_a_demo_refuses_a_data_directory_that_is_not_a_demos(home: Path, started: list[Any]) -> None:
    (home / "access.toml").write_text("[tenants.platform]\n")
    refused = run(home, "--demo")
    assert (refused.exit_code, started) == (1, [])
    assert "this data directory is not a demo's" in refused.output
    assert "choose another --data-dir" in refused.output


def test_a_demo_takes_a_new_directory_and_its_own_again(home: Path, started: list[Any]) -> None:
    assert run(home, "--demo").exit_code == 0
    (home / "access.toml").touch()
    (home / "demo-tokens.json").touch()
    assert run(home, "--demo").exit_code == 0
    assert run(home).exit_code == 0
    assert len(started) == 3


def test_a_demo_takes_nobody_elses_access_file(home: Path, started: list[Any]) -> None:
    refused = run(home, "--demo", "--access-file", str(home / "mine.toml"))
    assert (refused.exit_code, started) == (2, [])
    assert "leave out --access-file" in refused.output


@pytest.mark.parametrize("flags", [(), ("--demo",)])
def test_what_an_earlier_run_said_is_gone_before_the_start(
    home: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    ready = home / "ready.json"
    ready.write_text("{}")
    there: list[bool] = []
    monkeypatch.setattr(serve, "_run", lambda *_: there.append(ready.exists()))
    assert run(home, "--ready-file", str(ready), *flags).exit_code == 0
    assert there == [False]


def test_it_is_gone_also_where_the_start_is_refused(home: Path, started: list[Any]) -> None:
    ready = home / "ready.json"
    ready.write_text("{}")
    (home / "access.toml").touch()
    assert run(home, "--demo", "--ready-file", str(ready)).exit_code == 1
    assert not ready.exists()


def test_one_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(click.ClickException, match="cannot remove the old --ready-file"):
        serve._forget(tmp_path / "a file" / "ready.json")


@pytest.mark.parametrize(("demo", "level"), [(True, "WARNING"), (False, "INFO")])
def test_a_demo_logs_only_what_is_wrong_wherever_its_output_goes(demo: bool, level: str) -> None:
    assert serve.log_level(Settings(demo=demo)) == level


IAM = ("--iam-url", "https://iam.example/api/iam", "--iam-root-tenant", "ten_1")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--iam-url", "https://iam.example/api/iam"), "--iam-root-tenant"),
        (("--iam-root-tenant", "ten_1"), "needs --iam-url"),
        (("--iam-jwt-audience", "compute"), "needs --iam-url"),
        (("--iam-client-address-header", "X-From"), "needs --iam-url"),
        ((*IAM, "--iam-client-address-header", "Cookie"), "a header of your own"),
        ((*IAM, "--demo"), "leave out --demo"),
        ((*IAM, "--access-file", "access.toml"), "leave out --access-file"),
        (("--iam-url", "http://iam.example/api", "--iam-root-tenant", "ten_1"), "https://"),
        (("--iam-url", "https://u:p@iam.example", "--iam-root-tenant", "ten_1"), "no user"),
        (("--iam-url", "https://iam.example/?a=b", "--iam-root-tenant", "ten_1"), "query"),
        (("--iam-url", "nowhere", "--iam-root-tenant", "ten_1"), "https://"),
        (("--iam-url", "https://[bad", "--iam-root-tenant", "ten_1"), "no URL"),
        ((*IAM, "--iam-service-key-file", "/nowhere"), "cannot be read"),
        ((*IAM, "--iam-webhook-secret-file", "/dev/null"), "empty"),
    ],
)
def test_a_better_iam_that_cannot_be_is_refused_by_its_flag(
    home: Path, started: list[Any], flags: tuple[str, ...], said: str
) -> None:
    answer = run(home, *flags)
    assert answer.exit_code == 2
    assert said in answer.stderr
    assert not started


def test_a_better_iam_takes_the_place_of_an_access_file(home: Path, started: list[Any]) -> None:
    (home / "keys").write_text("# the root's\nbiam_key_1\n")
    answer = run(home, *IAM, "--iam-service-key-file", str(home / "keys"))
    assert answer.exit_code == 0, answer.output
    source = started[0][-1]
    assert (source.url, source.root_tenant, source.issuer) == (IAM[1], "ten_1", IAM[1])
    assert "biam_key_1" not in repr(source)
    assert not (home / "access.toml").exists()


def test_a_better_iam_that_cannot_ask_back_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert serve._resolver(Settings()) is None
    assert caplog.records == []
    assert serve._resolver(Settings(iam_url=IAM[1], iam_root_tenant=IAM[3])) is None
    assert "--iam-resolver-key-file" in caplog.text
