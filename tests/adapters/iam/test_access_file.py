"""An access file is taken whole or refused with the place and the remedy."""

import hashlib

import pytest

from adapters.iam import access_file

HASH = hashlib.sha256(b"token").hexdigest()

FILE = f"""\
[tenants.platform]

[tenants.acme]
parent = "platform"
boundaries = ["small"]

[tenants.lab]
parent = "acme"
status = "suspended"
type = "project"

[identities.alice]
tenant = "acme"
roles = ["tenant-user", "hpc"]
groups = ["hpc"]
token_sha256 = ["{HASH}"]

[identities.robot]
tenant = "acme"
kind = "agent"

[delegations.dlg_1]
person = "alice"
agent = "robot"
scope = ["small"]

[[relationships]]
tenant = "acme"
group = "hpc"
relation = "user"
type = "compute-pool"
id = "pool_1"

[roles.hpc]
version = 1
statements = [{{ effect = "allow", actions = ["compute:pools:get"], resources = ["compute-pool/*"] }}]

[boundaries.small]
version = 1
statements = [{{ effect = "allow", actions = ["*"], resources = ["*"] }}]
"""


def parse(text: str) -> access_file.AccessFile:
    return access_file.parse(text.encode())


def test_a_good_file_is_read_whole() -> None:
    file = parse(FILE)
    assert file.root == "platform"
    assert file.digest == hashlib.sha256(FILE.encode()).hexdigest()
    assert [(tenant.id, tenant.type, tenant.status) for tenant in file.tenants.values()] == [
        ("platform", "root", "active"),
        ("acme", "organization", "active"),
        ("lab", "project", "suspended"),
    ]
    assert file.identities["alice"].roles == ("tenant-user", "hpc")
    assert set(file.roles) >= {"platform-admin", "tenant-user", "hpc"}


@pytest.mark.parametrize(
    ("good", "bad", "path", "remedy"),
    [
        ('[tenants.acme]\nparent = "platform"', "[tenants.acme]", "tenants", "found platform, acme"),
        ("[tenants.lab]", '[tenants."acme/lab"]', "tenants.acme/lab", "must have no /"),
        ('parent = "acme"', 'parent = "acmee"', "tenants.lab.parent", "known are acme, lab, platform"),
        ('parent = "platform"', 'parent = "lab"', "tenants.acme.parent", "must lead to the root"),
        ('"suspended"', '"asleep"', "tenants.lab.status", "Invalid enum value 'asleep'"),
        ('type = "project"', "typ = 1", "tenants.lab", "the fields are parent, status, type, boundaries"),
        ('boundaries = ["small"]', 'boundaries = ["big"]', "tenants.acme.boundaries[0]", "known are small"),
        ('"hpc"]\ngroups', '"hcp"]\ngroups', "identities.alice.roles[1]", "there is no role 'hcp'"),
        ('["tenant-user", ', '["auditor", ', "identities.alice.roles[0]", "use one of the tenant- roles"),
        ('["tenant-user", "hpc"]', '"hpc"', "identities.alice.roles", "Expected `array`, got `str`"),
        (HASH, "secret", "identities.alice.token_sha256[0]", "64 hex digits"),
        (f'["{HASH}"]', f'["{HASH}", "{HASH}"]', "identities.alice.token_sha256[1]", "give every holder"),
        ('kind = "agent"', 'kind = "service"', "delegations.dlg_1.agent", "kind agent"),
        ('scope = ["small"]', "scope = []", "delegations.dlg_1.scope", "at least one"),
        ('relation = "user"', 'relation = "owner"', "relationships[0].relation", "it has viewer, user"),
        ('"compute-pool"\nid', '"compute-poool"\nid', "relationships[0].type", "there is no type"),
        ('group = "hpc"\n', 'group = "hcp"\n', "relationships[0].group", "is in the group 'hcp'"),
        ('group = "hpc"\n', 'identity = "bob"\n', "relationships[0].identity", "has no identity 'bob'"),
        ('group = "hpc"\n', "", "relationships[0]", "either an identity or a group"),
        ('actions = ["*"]', 'actions = "*"', "boundaries.small.statements[0].actions", "list of 1 to 128"),
        ("[roles.hpc]", "[roles.auditor]", "roles.auditor", "is a built-in role"),
        ('["compute-pool/*"]', '["pool/*"]', "roles.hpc.statements[0].resources[0]", "no type 'pool'"),
        ("[identities.robot]", '[identities."a b"]', "identities.a b", "printable characters"),
        ("[delegations.dlg_1]", "[delegation.dlg_1]", "delegation", "the sections are"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_the_remedy(good: str, bad: str, path: str, remedy: str) -> None:
    assert good in FILE
    with pytest.raises(access_file.AccessFileError) as refusal:
        parse(FILE.replace(good, bad, 1))
    assert refusal.value.path == path
    assert remedy in refusal.value.message


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('["tenant-user", "hpc"]', '["tenant-user", "hpcc"]'),
        ('relation = "user"', 'relation = "owner"'),
        ('status = "suspended"', 'status = "asleep"'),
        ('tenant = "acme"\nkind', 'tenant = "acne"\nkind'),
        ('kind = "agent"', "kind = agent"),
    ],
)
def test_the_line_of_a_mistake_is_told(good: str, bad: str) -> None:
    text = FILE.replace(good, bad, 1)
    lines = enumerate(text.splitlines(), 1)
    expected = next(number for number, line in lines if line not in FILE.splitlines())
    with pytest.raises(access_file.AccessFileError, match=f"line {expected}") as refusal:
        parse(text)
    assert refusal.value.line == expected


def test_an_unknown_action_is_refused_where_actions_are_known() -> None:
    access_file.parse(FILE.encode(), {"compute:pools:get"})
    with pytest.raises(access_file.AccessFileError, match="there is no action 'compute:pools:get'"):
        access_file.parse(FILE.encode(), {"compute:pools:list"})


def test_what_no_parser_can_follow_is_refused() -> None:
    with pytest.raises(access_file.AccessFileError, match="nested too deeply"):
        access_file.parse(b"x = " + b"[" * 5000 + b"]" * 5000)


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(access_file.AccessFileError, match="UTF-8"):
        access_file.parse(b"\xff")


def test_an_empty_file_lacks_a_root() -> None:
    with pytest.raises(access_file.AccessFileError, match="found none"):
        parse("")


NESTED = """\
[tenants.platform]
[identities."bob.smith"]          # a name with a dot
tenant = "platform"
roles = [
  "own",
]

[roles.own]
version = 1

[[roles.own.statements]]
effect = "allow"
actions = ["compute:pools:get"]
resources = ["*"]

[[roles.own.statements]]
effect = "allow"
actions = [
  "compute:pools:get",
]
resources = ["*"]
[roles.own.statements.conditions]
StringEquals = { "resource.gpuModel" = "H100" }

[[relationships]]
tenant = "platform"
identity = "bob.smith"
relation = "user"
type = "compute-pool"
id = "pool_1"

[[relationships]]
tenant = "platform"
identity = "bob.smith"
relation = "admin"
type = "compute-pool"
id = "pool_2"
"""


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ('"own",\n]', '"owm",\n]', 4),
        ('[identities."bob.smith"]', '[identities."bob smith"]', 2),
        ('effect = "allow"\nactions = [\n', 'effect = "Allow"\nactions = [\n', 17),
        ('  "compute:pools:get"', '  "compute:pools:got"', 18),
        ("StringEquals", "StringEqual", 23),
        ('relation = "admin"', 'relation = "boss"', 35),
        ('"compute-pool"\nid = "pool_2"', '"compute-pol"\nid = "pool_2"', 36),
        ('id = "pool_2"\n', "", 32),
        ("[roles.own]\nversion = 1", "[roles.own]\nversion = 2", 9),
        ("[[roles.own.statements]]", "[roles.own.statement]", 11),
        ("[tenants.platform]\n", "[tenants.platform]\n[tenants.acme]\n", 1),
        ("[tenants.platform]\n", "[tenants.platform]\n[robots]\n", 2),
    ],
)
def test_the_line_is_told_in_every_layout(good: str, bad: str, line: int) -> None:
    assert good in NESTED
    parse(NESTED)
    with pytest.raises(access_file.AccessFileError) as refusal:
        access_file.parse(NESTED.replace(good, bad, 1).encode(), {"compute:pools:get"})
    assert refusal.value.line == line, str(refusal.value)
