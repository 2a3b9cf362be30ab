"""Profiles: servers and tokens under names, in a file that is its owner's alone."""

import json
import os
import stat
from pathlib import Path

import pytest
from canned import REGISTRY, Server, serving
from click.testing import CliRunner, Result

from adapters.cli import main, profile_file

TOKEN = "biam_key_0123456789abcdefghijklmnop"


@pytest.fixture
def server():
    with serving() as running:
        yield running.says({"items": []})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config" / "better-compute" / "config.toml"


@pytest.fixture
def run(config, monkeypatch):
    """A command line that has nothing of ours in its environment but what is given."""
    for name in [name for name in os.environ if name.startswith("BETTER_COMPUTE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parents[1]))
    root = main.Root(registry=lambda: REGISTRY, groups={"nodes": "Machines."})

    def run(line: str, stdin: str | None = None, **environment: str) -> Result:
        return CliRunner().invoke(root, line.split(), input=stdin, env=environment)

    return run


def asked_with(server: Server) -> str | None:
    return server.asked[-1].headers.get("Authorization")


def test_a_profile_is_kept_where_only_its_owner_reads_it(run, config):
    assert run("profile set demo --server http://127.0.0.1:1", TOKEN + "\n").exit_code == 0
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.parent.stat().st_mode) == 0o700
    assert profile_file.read() == (
        "demo",
        {"demo": profile_file.Profile("http://127.0.0.1:1", TOKEN)},
    )


def test_a_token_is_never_shown_whole(run):
    run("profile set demo --server http://127.0.0.1:1", TOKEN)
    for line in ("profile list", "profile list --json", "profile show", "profile show demo --json"):
        shown = run(line).output
        assert TOKEN not in shown
        assert TOKEN[-4:] in shown


def test_of_a_short_token_nothing_is_shown(run):
    run("profile set demo", "abcdefgh")
    assert json.loads(run("profile show --json").stdout)["token"] == "…"


def test_the_first_profile_is_in_use_at_once_and_another_when_it_is_said(run):
    run("profile set one", TOKEN)
    run("profile set two", TOKEN)
    assert profile_file.read().current == "one"
    assert run("profile use two").exit_code == 0
    assert profile_file.read().current == "two"


def test_a_profile_that_is_removed_is_no_longer_in_use(run):
    run("profile set one", TOKEN)
    assert run("profile remove one").exit_code == 0
    assert profile_file.read() == profile_file.NONE


@pytest.mark.parametrize("line", ["profile use x", "profile remove x", "profile show x", "nodes list --profile x"])
def test_a_profile_that_is_not_there_is_named_with_those_that_are(run, line):
    run("profile set one", TOKEN)
    ran = run(line)
    assert (ran.exit_code, ran.stderr) == (2, "Error: no profile 'x'; there are one\n")


def test_comments_and_what_is_left_out_stay(run, config):
    run("profile set one --server http://127.0.0.1:1", TOKEN)
    config.write_text("# mine\n" + config.read_text())
    run("profile set one --no-token --server http://127.0.0.1:2")
    assert config.read_text().startswith("# mine\n")
    assert profile_file.read().by_name["one"] == ("http://127.0.0.1:2", TOKEN)


@pytest.mark.parametrize("stdin", ["", "two words", "line\nbreak", "t\x1b[2J"])
def test_what_is_no_token_is_not_kept(run, config, stdin):
    assert (run("profile set one", stdin).exit_code, config.exists()) == (2, False)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_refused_by_its_name(run, config, mode):
    run("profile set one", TOKEN)
    config.chmod(mode)
    for line in ("nodes list", "profile list", "profile set two"):
        ran = run(line, TOKEN)
        assert (ran.exit_code, f"chmod 600 {config}" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a = [", "not TOML"),
        ("server = 'x'", "unknown 'server'"),
        ("current = 1", "current is a name"),
        ("profiles = 1", "profiles are tables"),
        ("[profiles.a]\nport = 1", "something else than server and token"),
        ("[profiles.a]\ntoken = 1", "are texts"),
    ],
)
def test_a_file_that_says_something_else_is_refused(run, config, text, wrong):
    config.parent.mkdir(parents=True)
    config.write_text(text)
    config.chmod(0o600)
    ran = run("nodes list")
    assert (ran.exit_code, wrong in ran.stderr) == (2, True)


def test_the_profile_in_use_names_server_and_token(run, server):
    run(f"profile set demo --server {server.address}", TOKEN)
    assert run("nodes list").exit_code == 0
    assert asked_with(server) == f"Bearer {TOKEN}"


def test_what_is_typed_stands_over_the_environment_and_that_over_the_profile(run, server):
    run(f"profile set demo --server {server.address}", TOKEN)
    assert run("nodes list", BETTER_COMPUTE_TOKEN="from-environment").exit_code == 0
    assert asked_with(server) == "Bearer from-environment"
    assert run("nodes list --token typed", BETTER_COMPUTE_TOKEN="from-environment").exit_code == 0
    assert asked_with(server) == "Bearer typed"
    assert run("nodes list", BETTER_COMPUTE_SERVER="http://127.0.0.1:1").exit_code == 3


def test_a_profile_that_is_typed_stands_over_the_environment(run, server):
    run(f"profile set demo --server {server.address}", TOKEN)
    elsewhere = {"BETTER_COMPUTE_SERVER": "http://127.0.0.1:1", "BETTER_COMPUTE_TOKEN": "from-environment"}
    assert run("nodes list --profile demo", **elsewhere).exit_code == 0
    assert asked_with(server) == f"Bearer {TOKEN}"
    assert run("nodes list", BETTER_COMPUTE_PROFILE="demo", **elsewhere).exit_code == 3


@pytest.mark.parametrize("line", ["nodes list --server {}", "nodes list --server {} --profile demo"])
def test_the_token_of_a_profile_goes_to_no_other_server(run, server, line):
    run("profile set demo --server http://127.0.0.1:1", TOKEN)
    assert run(line.format(server.address)).exit_code == 0
    assert asked_with(server) is None


def test_the_file_is_not_read_where_nothing_is_left_to_it(run, server, config):
    run("profile set one", TOKEN)
    config.chmod(0o644)
    assert run(f"nodes list --server {server.address} --token t").exit_code == 0


def test_the_names_of_profiles_complete(run, config):
    from click.shell_completion import ShellComplete

    run("profile set demo", TOKEN)
    run("profile set prod", TOKEN)
    root = main.Root(registry=lambda: REGISTRY, groups={"nodes": "Machines."})
    complete = ShellComplete(root, {}, "better-compute", "_BETTER_COMPUTE_COMPLETE")
    for words in (["nodes", "list", "--profile"], ["profile", "use"], ["profile", "show"]):
        assert [item.value for item in complete.get_completions(words, "d")] == ["demo"]
    config.chmod(0o644)
    assert complete.get_completions(["profile", "use"], "d") == []


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_waited_for(run, tmp_path, kind):
    place = tmp_path / "pipe"
    os.mkfifo(place, 0o600)
    place = place if kind == "pipe" else "/dev/null"
    ran = run("profile list", BETTER_COMPUTE_CONFIG=str(place))
    told = f"Error: {place} is no file: name one of your own in BETTER_COMPUTE_CONFIG\n"
    assert (ran.exit_code, ran.stderr) == (2, told)
