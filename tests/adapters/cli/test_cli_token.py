"""`better-compute token`: made, listed and revoked in the access file; a token is shown once and kept nowhere."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from adapters import access
from adapters.cli import main
from adapters.iam import tokens
from adapters.iam.access_file import AccessFileError

OLD = tokens.digest("old")
FILE = f"""\
[tenants.platform]

[identities.root]     # the first
tenant = "platform"
roles = ["platform-admin"]
token_sha256 = ["{OLD}"]

[identities.robot]
tenant = "platform"
kind = "agent"

[delegations.errand]
person = "root"
agent = "robot"
scope = ["all"]

[boundaries.all]
version = 1
statements = [{{ effect = "allow", actions = ["*"], resources = ["*"] }}]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def run(path: Path, *arguments: str, group: str = "token") -> Result:
    return CliRunner().invoke(main.Root(), [group, *arguments, "--access-file", str(path)])


def test_a_token_made_for_an_identity_is_in_the_file_as_its_hash_alone(path: Path) -> None:
    made = json.loads(run(path, "create", "--identity", "root", "--json").stdout)
    assert tokens.kind_of(made["token"]) == "key"
    assert made["sha256"] == tokens.digest(made["token"])
    text = path.read_text()
    assert made["sha256"] in text
    assert OLD in text
    assert made["token"] not in text
    assert "# the first" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_made_for_a_delegation_says_so(path: Path) -> None:
    made = json.loads(run(path, "create", "--delegation", "errand", "--json").stdout)
    assert tokens.kind_of(made["token"]) == "dlg"
    rows = json.loads(run(path, "list", "--json").stdout)
    assert [(row["identity"], row["kind"], row["delegation"]) for row in rows] == [
        ("root", "api-key", None),
        ("root", "delegated", "errand"),
    ]
    assert rows[1]["sessionId"] == f"delegated:{made['sha256'][:16]}"
    assert made["token"] not in json.dumps(rows)


def test_a_token_for_nobody_touches_no_file(path: Path) -> None:
    made = json.loads(CliRunner().invoke(main.Root(), ["token", "create", "--json"]).stdout)
    assert set(made) == {"token", "sha256"}
    assert path.read_text() == FILE


def test_a_list_for_people_names_whose_and_how_but_no_token(path: Path) -> None:
    shown = run(path, "list").stdout
    assert shown.splitlines()[0].split() == ["IDENTITY", "TENANT", "KIND", "DELEGATION", "SHA256", "SESSION", "ID"]
    assert f"api-key:{OLD[:16]}" in shown
    assert run(path, "list", "--identity", "robot").stdout == "no tokens\n"


def test_revoking_says_what_is_gone(path: Path) -> None:
    ran = run(path, "revoke", OLD[:8])
    assert (ran.exit_code, ran.stdout) == (0, f"revoked {OLD[:16]} of root\n")
    assert OLD not in path.read_text()
    run(path, "create", "--identity", "root")
    run(path, "create", "--delegation", "errand")
    assert len(run(path, "revoke", "--identity", "root").stdout.splitlines()) == 2
    assert run(path, "list").stdout == "no tokens\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["create", "--identity", "toor"], 1, "has no identity 'toor'; there are robot, root"),
        (["create", "--delegation", "x"], 1, "has no delegation 'x'; there are errand"),
        (["create", "--identity", "root", "--delegation", "errand"], 2, "give one of them"),
        (["revoke"], 2, "give the beginning of a token's hash, or --identity"),
        (["revoke", "ffffffff"], 1, "no token's hash begins with ffffffff"),
        (["revoke", ""], 1, "give at least 4 digits"),
        (["revoke", "--identity", "robot"], 1, "robot has no token"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_changes(
    path: Path, arguments: list[str], status: int, said: str
) -> None:
    ran = run(path, *arguments)
    assert (ran.exit_code, ran.stdout) == (status, "")
    assert said in ran.stderr
    assert path.read_text() == FILE


def test_a_broken_file_is_told_with_its_line_and_stays(path: Path) -> None:
    broken = FILE.replace('"platform-admin"', '"platform-adnim"')
    path.write_text(broken)
    for arguments in (["create", "--identity", "root"], ["list"], ["revoke", OLD]):
        ran = run(path, *arguments)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "line 5: identities.root.roles[0]: there is no role 'platform-adnim'" in ran.stderr
    assert path.read_text() == broken


def test_a_file_that_is_not_there_is_told(path: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(main.Root(), ["token", "list", "--data-dir", str(tmp_path / "none")])
    assert (ran.exit_code, "name another --data-dir" in ran.stderr) == (1, True)
    assert "cannot read" in run(tmp_path / "gone.toml", "list").stderr


def test_check_tells_what_a_file_holds_or_what_is_wrong(path: Path) -> None:
    good = json.loads(run(path, "check", "--json", group="iam").stdout)
    assert (good["valid"], good["identities"], good["tokens"], good["roles"]) == (True, 2, 1, 0)
    path.write_text(FILE + '[roles.r]\nversion = 1\n[[roles.r.statements]]\neffect = "allow"\nactions = ["x:y"]\n')
    ran = run(path, "check", group="iam")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "roles.r.statements[0].resources: must be a list" in ran.stderr
    ran = run(path, "check", "--json", group="iam")
    assert (ran.exit_code, json.loads(ran.stdout)["valid"]) == (1, False)


def test_check_refuses_what_a_server_would_refuse_at_its_start(path: Path) -> None:
    """Joining is decided by its token and never by a policy: there is no such action."""
    rule = 'effect = "allow"\nactions = ["compute:nodes:join"]\nresources = ["*"]\n'
    path.write_text(FILE + f"[roles.r]\nversion = 1\n[[roles.r.statements]]\n{rule}")
    with pytest.raises(AccessFileError, match="there is no action"):
        access.root_tenant(path)
    assert "there is no action 'compute:nodes:join'" in run(path, "check", group="iam").stderr
    assert run(path, "create", "--identity", "root").exit_code == 1


def test_a_token_of_the_demo_is_printed_alone(tmp_path: Path) -> None:
    def asked(identity: str) -> Result:
        return CliRunner().invoke(main.Root(), ["token", "demo", identity, "--data-dir", str(tmp_path)])

    assert "start `serve --demo` first" in asked("acme").stderr
    (tmp_path / "demo-tokens.json").write_text('{"acme": "biam_key_1"}')
    assert asked("acme").stdout == "biam_key_1\n"
    assert (asked("nobody").exit_code, "only acme" in asked("nobody").stderr) == (1, True)
