"""Tokens come into an access file and leave it; the rest stays as it was written, and nothing is half done."""

import stat
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from adapters.iam import access_edit, access_file, tokens

ONE, TWO, THREE = (tokens.digest(name) for name in ("one", "two", "three"))
FILE = f"""\
# who may what, by hand
[tenants.platform]      # us
[tenants.acme]
parent = "platform"

  [identities.alice]    # indented on purpose
  tenant = "acme"
  roles = ["tenant-user",
           'tenant-auditor']   # both
  token_sha256 = [
    "{ONE}",  # her laptop
    "{TWO}",  # her phone
  ]

[identities."bob.smith"]
tenant = "acme"

[identities.robot]
tenant = "acme"
kind = "agent"
token_sha256 = []

[delegations.errand]
person = "alice"
agent = "robot"
scope = ["all"]
token_sha256 = ["{THREE}"]

[boundaries.all]
version = 1
statements = [{{ effect = "allow", actions = ["*"], resources = ["*"] }}]
# the end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def hashes(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for token in access_edit.held(access_edit.read(path)):
        found.setdefault(token.delegation or token.identity, []).append(token.sha256)
    return found


def revoke(path: Path, prefix: str) -> None:
    access_edit.revoke(path, lambda file: (access_edit.by_prefix(file, prefix),))


@pytest.mark.parametrize(
    ("section", "name"),
    [("identities", "alice"), ("identities", "bob.smith"), ("identities", "robot"), ("delegations", "errand")],
)
def test_a_token_is_added_and_taken_away_and_all_else_stays(path: Path, section: str, name: str) -> None:
    before, new = hashes(path), tokens.digest("new")
    access_edit.add(path, section, name, new)
    assert hashes(path) == before | {name: [*before.get(name, []), new]}
    lines = path.read_text().splitlines()
    changed = [line for line in FILE.splitlines() if line not in lines]
    assert all("token_sha256" in line for line in changed), changed
    assert [line for line in lines if "#" in line] == [line for line in FILE.splitlines() if "#" in line]
    revoke(path, new[:10])
    assert hashes(path) == before


def test_a_token_among_others_is_taken_away_alone(path: Path) -> None:
    revoke(path, f"api-key:{ONE[:16]}")
    assert hashes(path) == {"alice": [TWO], "errand": [THREE]}
    assert "# her phone" in path.read_text()
    revoke(path, TWO)
    assert hashes(path) == {"errand": [THREE]}


def test_the_mode_stays_and_no_draft_is_left(path: Path) -> None:
    for mode in (0o600, 0o640):
        path.chmod(mode)
        access_edit.add(path, "identities", "alice", tokens.digest(str(mode)))
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [found.name for found in path.parent.iterdir()] == ["access.toml"]


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    path.rename(real)
    path.symlink_to(real)
    access_edit.add(path, "identities", "alice", tokens.digest("new"))
    assert path.is_symlink()
    assert len(hashes(real)["alice"]) == 3


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("", "at least 4 digits"),
        (ONE[:3], "at least 4 digits"),
        ("0000000", "no token's hash begins with 0000000"),
        ("*", "at least 4 digits"),
    ],
)
def test_a_prefix_that_names_no_token_is_refused(path: Path, prefix: str, said: str) -> None:
    with pytest.raises(access_edit.EditError, match=said.replace("*", r"\*")):
        revoke(path, prefix)
    assert path.read_text() == FILE


def test_an_ambiguous_prefix_is_refused_and_tells_the_choice(path: Path) -> None:
    near = ONE[:20] + "0" * 44
    access_edit.add(path, "identities", "bob.smith", near)
    with pytest.raises(access_edit.EditError, match=r"begins 2 hashes: .* of alice, .* of bob.smith; give more"):
        revoke(path, ONE[:8])
    revoke(path, near)
    assert ONE in hashes(path)["alice"]


@pytest.mark.parametrize(("name", "left"), [("alice", {}), ("robot", {"alice": [ONE, TWO]})])
def test_whatever_acts_as_an_identity_goes_with_it(path: Path, name: str, left: dict[str, list[str]]) -> None:
    access_edit.revoke(path, lambda file: access_edit.of_identity(file, name))
    assert hashes(path) == left


def test_what_cannot_be_is_refused_and_the_file_stays(path: Path) -> None:
    for section, name, said in (
        ("identities", "carol", "has no identity 'carol'; there are alice, bob.smith, robot"),
        ("delegations", "trip", "has no delegation 'trip'; there are errand"),
    ):
        with pytest.raises(access_edit.EditError, match=said):
            access_edit.add(path, section, name, tokens.digest("new"))
    with pytest.raises(access_edit.EditError, match="is the same token as"):
        access_edit.add(path, "identities", "bob.smith", ONE)
    with pytest.raises(access_edit.EditError, match=r"bob\.smith has no token"):
        access_edit.revoke(path, lambda file: access_edit.of_identity(file, "bob.smith"))
    assert path.read_text() == FILE
    path.write_text(FILE.replace('"tenant-user"', '"king"'))
    with pytest.raises(access_edit.EditError, match=r"line 8: identities.alice.roles\[0\]: there is no role 'king'"):
        access_edit.add(path, "identities", "alice", tokens.digest("new"))
    with pytest.raises(access_edit.EditError, match="cannot read"):
        access_edit.read(path.with_name("gone.toml"))


def test_many_at_once_lose_none(path: Path) -> None:
    new = [tokens.digest(str(n)) for n in range(20)]
    with ThreadPool(8) as pool:
        pool.map(lambda digest: access_edit.add(path, "identities", "bob.smith", digest), new)
    assert sorted(hashes(path)["bob.smith"]) == sorted(new)


@pytest.mark.parametrize(
    "text",
    [
        '[tenants]\nplatform = {}\n[identities]\nalice = { tenant = "platform" }\n',
        'tenants.platform.status = "active"\nidentities.alice.tenant = "platform"\n',
        '[tenants.platform]\n[identities.alice]\ntenant = "platform"\n[tenants.acme]\nparent = "platform"\n'
        '[identities.bob]\ntenant = "acme"\n',
        '[tenants.platform]\r\n[identities.alice]\r\ntenant = "platform"\r\n',
        '[tenants.platform]\n[identities.alice]\ntenant = "platform"',
    ],
    ids=["inline", "dotted", "sections in turns", "CRLF", "no last line end"],
)
def test_every_layout_of_toml_takes_a_token(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
    access_edit.add(path, "identities", "alice", ONE)
    access_edit.add(path, "identities", "alice", TWO)
    revoke(path, ONE[:8])
    assert hashes(path) == {"alice": [TWO]}
    assert access_file.parse(path.read_bytes()).root == "platform"
    assert path.read_bytes().count(b"\r\n") == text.count("\r\n"), "and keeps its line ends"
