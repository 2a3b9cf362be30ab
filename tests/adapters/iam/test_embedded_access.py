"""The embedded Authorizer decides in Better IAM's order, on the file that is in force."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.iam import access_file, embedded, tokens
from adapters.iam.demo import demo_access
from domain.access import Attribute, Authorizer, Resource, Session

ALICE, BOB, ROOT, DELEGATED, ROBOT = (f"token-of-{name}" for name in ("alice", "bob", "root", "dlg", "robot"))
NOON = 1_798_718_400_000

FILE = f"""\
[tenants.platform]
[tenants.acme]
parent = "platform"
boundaries = ["small"]
[tenants.lab]
parent = "acme"

[identities.root]
tenant = "platform"
roles = ["platform-admin"]
token_sha256 = ["{tokens.digest(ROOT)}"]
[identities.alice]
tenant = "acme"
roles = ["pool-user"]
groups = ["hpc"]
token_sha256 = ["{tokens.digest(ALICE)}"]
[identities.bob]
tenant = "lab"
roles = ["tenant-admin"]
boundaries = ["before-2027"]
token_sha256 = ["{tokens.digest(BOB)}"]
[identities.robot]
tenant = "acme"
kind = "agent"
token_sha256 = ["{tokens.digest(ROBOT)}"]

[delegations.dlg_1]
person = "alice"
agent = "robot"
scope = ["short"]
token_sha256 = ["{tokens.digest(DELEGATED)}"]

[[relationships]]
tenant = "acme"
group = "hpc"
relation = "user"
type = "compute-pool"
id = "pool_1"

[[roles.pool-user.statements]]
sid = "reserve"
effect = "allow"
actions = ["compute:reservations:*"]
resources = ["compute-reservation/*"]
[roles.pool-user.statements.conditions.ArrayContains]
"resource.parentRelations" = "user"

[boundaries.small]
version = 1
[[boundaries.small.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
[[boundaries.small.statements]]
effect = "deny"
actions = ["*:create"]
resources = ["*"]
conditions = {{ NumericGreaterThan = {{ "resource.gpuCount" = 8 }} }}

[boundaries.short]
version = 1
[[boundaries.short.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
conditions = {{ NumericLessThanEquals = {{ "resource.durationHours" = 4 }} }}

[boundaries.before-2027]
version = 1
[[boundaries.before-2027.statements]]
effect = "allow"
actions = ["*"]
resources = ["*"]
conditions = {{ DateBefore = {{ "request.time" = "2027-01-01T00:00:00Z" }} }}

[roles.pool-user]
version = 1
"""


class Clock:
    """Both clocks of the adapter, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.moment = NOON

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return self.moment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def authorizer(path: Path, clock: Clock) -> embedded.Embedded:
    return embedded.Embedded(path, clock=clock.wall, monotonic=clock.monotonic)


def caller(authorizer: Authorizer, token: str) -> Session:
    session = authorizer.identify(token)
    assert session is not None
    return session


def draft(tenant: str = "acme", pool: str = "pool_1", **attributes: Attribute) -> Resource:
    given: dict[str, Attribute] = {"gpuCount": 8, "durationHours": 2, **attributes}
    return Resource("compute-reservation", "rsv_1", tenant, given, "compute-pool", pool)


def reason(authorizer: Authorizer, token: str, resource: Resource, action: str = "reservations:create") -> str:
    decision = authorizer.authorize(caller(authorizer, token), f"compute:{action}", resource)
    assert decision.allowed is (decision.reason == "allowed")
    return decision.reason


def test_it_is_an_authorizer_that_needs_no_committed_draft(authorizer: embedded.Embedded) -> None:
    port: Authorizer = authorizer
    assert port.needs_committed_draft is False


def test_a_token_is_found_by_its_hash_and_never_kept(authorizer: embedded.Embedded, path: Path) -> None:
    session = caller(authorizer, ALICE)
    assert session == Session("acme", "alice", "user", session.session_id, "api-key")
    assert ALICE not in repr(session)
    assert tokens.digest(ALICE) not in repr(session)
    assert authorizer.identify("") is None
    assert authorizer.identify("token-of-nobody") is None
    assert authorizer.identify(tokens.digest(ALICE)) is None
    assert authorizer.identify("\udcff" + "é") is None
    assert authorizer.identify("x" * 1_000_000) is None


def test_the_roots_sessions_say_so(authorizer: embedded.Embedded) -> None:
    assert caller(authorizer, ROOT).root_tenant
    assert not caller(authorizer, ALICE).root_tenant


def test_a_decision_names_the_file_it_was_taken_under(authorizer: embedded.Embedded, path: Path) -> None:
    decision = authorizer.authorize(caller(authorizer, ALICE), "compute:reservations:create", draft())
    assert decision.allowed
    assert decision.policy_digest == authorizer.digest == access_file.parse(path.read_bytes()).digest


def test_relations_to_the_parent_open_and_their_absence_closes(authorizer: embedded.Embedded) -> None:
    assert reason(authorizer, ALICE, draft()) == "allowed"
    assert reason(authorizer, ALICE, draft(pool="pool_2")) == "no-grant"


def test_an_attribute_cannot_pass_for_a_relation(authorizer: embedded.Embedded) -> None:
    forged = draft(pool="pool_2", parentRelations=["user"], tenantId="platform")
    assert reason(authorizer, ALICE, forged) == "no-grant"


def test_a_tenants_boundary_binds_it_and_all_below(authorizer: embedded.Embedded) -> None:
    assert reason(authorizer, ALICE, draft(gpuCount=9)) == "explicit-deny"
    assert reason(authorizer, BOB, draft("lab", gpuCount=9)) == "explicit-deny"
    assert reason(authorizer, BOB, draft("lab")) == "allowed"


def test_an_identitys_boundary_reads_the_clock(authorizer: embedded.Embedded, clock: Clock) -> None:
    assert reason(authorizer, BOB, draft("lab")) == "allowed"
    clock.moment += 3_600_000 * 12
    assert reason(authorizer, BOB, draft("lab")) == "boundary-deny"


def test_a_parents_members_have_nothing_in_its_children(authorizer: embedded.Embedded) -> None:
    assert reason(authorizer, ROOT, draft("acme")) == "TENANT_MISMATCH"


def test_scopes_of_others_are_out_of_reach_whatever_the_role(authorizer: embedded.Embedded) -> None:
    fleet = Resource("compute-fleet", "global", "lab", {})
    assert reason(authorizer, BOB, fleet, "sites:create") == "RESOURCE_MISMATCH"
    assert reason(authorizer, ROOT, Resource("compute-fleet", "global", "platform", {})) == "allowed"
    foreign = Resource("compute-tenant", "acme", "lab", {})
    assert reason(authorizer, BOB, foreign, "projects:create") == "RESOURCE_MISMATCH"


def test_a_delegated_session_is_the_persons_within_the_scope(authorizer: embedded.Embedded) -> None:
    session = caller(authorizer, DELEGATED)
    assert (session.identity_id, session.identity_kind) == ("alice", "user")
    assert session.session_kind == "delegated"
    assert (session.agent_id, session.delegation_id) == ("robot", "dlg_1")
    assert reason(authorizer, DELEGATED, draft()) == "allowed"
    assert reason(authorizer, DELEGATED, draft(durationHours=5)) == "boundary-deny"
    assert reason(authorizer, ROBOT, draft()) == "no-grant"


def test_an_action_that_nobody_declared_is_refused(path: Path) -> None:
    authorizer = embedded.Embedded(path, actions={"compute:reservations:create"})
    pool = Resource("compute-pool", "pool_1", "platform", {})
    assert reason(authorizer, ROOT, pool, "pools:explode") == "UNKNOWN_ACTION"


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def test_a_changed_file_is_in_force_a_second_later(authorizer: embedded.Embedded, path: Path, clock: Clock) -> None:
    session = caller(authorizer, ALICE)
    rewrite(path, lambda text: text.replace("[tenants.acme]", '[tenants.acme]\nstatus = "suspended"'))
    authorizer.refresh()
    assert reason(authorizer, ALICE, draft()) == "allowed", "it looks at most once a second"
    clock.seconds += 1
    authorizer.refresh()
    assert reason(authorizer, ALICE, draft()) == "TENANT_INACTIVE"
    assert reason(authorizer, BOB, draft("lab")) == "TENANT_INACTIVE"
    assert authorizer.authorize(session, "compute:reservations:get", draft()).reason == "TENANT_INACTIVE"


def test_a_change_of_neither_size_nor_time_is_seen(authorizer: embedded.Embedded, path: Path, clock: Clock) -> None:
    before = path.stat()
    rewrite(path, lambda text: text.replace('"resource.gpuCount" = 8', '"resource.gpuCount" = 4'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.seconds += 1
    authorizer.refresh()
    assert reason(authorizer, ALICE, draft()) == "explicit-deny"


def test_a_broken_or_missing_file_leaves_the_last_one_in_force(
    authorizer: embedded.Embedded, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    digest = authorizer.digest
    rewrite(path, lambda text: text.replace('roles = ["pool-user"]', 'roles = ["pool-usr"]'))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            clock.seconds += 1
            authorizer.refresh()
            assert reason(authorizer, ALICE, draft()) == "allowed"
    assert caplog.text.count("identities.alice.roles[0]") == 1
    path.unlink()
    clock.seconds += 1
    authorizer.refresh()
    assert reason(authorizer, ALICE, draft()) == "allowed"
    path.write_text(FILE)
    assert not authorizer.reload()
    assert authorizer.digest == digest


def test_a_session_ends_with_its_token(authorizer: embedded.Embedded, path: Path) -> None:
    session = caller(authorizer, ALICE)
    rewrite(path, lambda text: text.replace(tokens.digest(ALICE), tokens.digest("another")))
    assert authorizer.reload()
    assert authorizer.identify(ALICE) is None
    assert authorizer.authorize(session, "compute:reservations:create", draft()).reason == "UNAUTHENTICATED"


def test_a_made_up_session_is_nobodys(authorizer: embedded.Embedded) -> None:
    session = caller(authorizer, ALICE)
    forged = Session("platform", "root", "user", session.session_id, "api-key", root_tenant=True)
    pool = Resource("compute-pool", "pool_1", "platform", {})
    assert authorizer.authorize(forged, "compute:pools:retire", pool).reason == "UNAUTHENTICATED"


def test_every_load_is_told_before_it_counts(path: Path) -> None:
    told: list[str] = []
    authorizer = embedded.Embedded(path, on_load=lambda file: told.append(file.digest))
    rewrite(path, lambda text: text + "# a note\n")
    assert authorizer.reload()
    assert not authorizer.reload()
    assert len(told) == 2
    assert told[1] == authorizer.digest


def test_who_asks_who_a_token_is_never_waits_for_the_file_or_the_log(path: Path, clock: Clock) -> None:
    told: list[str] = []
    authorizer = embedded.Embedded(path, monotonic=clock.monotonic, on_load=lambda file: told.append(file.digest))
    rewrite(path, lambda text: text + "# a note\n")
    clock.seconds += 60
    caller(authorizer, ALICE)
    assert len(told) == 1, "identify only looks up: it runs on the event loop of HTTP"
    authorizer.refresh()
    assert len(told) == 2


def test_a_load_that_could_not_be_told_does_not_count_and_is_tried_again(path: Path, clock: Clock) -> None:
    failing = False

    def told(file: access_file.AccessFile) -> None:
        if failing:
            raise ConnectionError

    authorizer = embedded.Embedded(path, monotonic=clock.monotonic, on_load=told)
    digest, failing = authorizer.digest, True
    rewrite(path, lambda text: text + "# a note\n")
    clock.seconds += 1
    authorizer.refresh()
    assert authorizer.digest == digest
    failing = False
    clock.seconds += 1
    authorizer.refresh()
    assert authorizer.digest != digest


def test_the_demo_has_a_token_for_every_part(tmp_path: Path) -> None:
    text, minted = demo_access()
    path = tmp_path / "access.toml"
    path.write_text(text)
    authorizer = embedded.Embedded(path)
    assert {name: caller(authorizer, token).tenant_id for name, token in minted.items()} == {
        "root": "platform",
        "operator": "platform",
        "auditor": "platform",
        "acme": "acme",
        "globex": "globex",
        "acme-user": "acme",
        "globex-user": "globex",
    }
    assert all(tokens.kind_of(token) == "key" for token in minted.values())
    assert not any(token in text for token in minted.values())
    pool = Resource("compute-pool", "pool_1", "platform", {})
    assert reason(authorizer, minted["operator"], pool, "pools:evict") == "allowed"
    assert reason(authorizer, minted["operator"], pool, "pools:offer") == "no-grant"
    assert reason(authorizer, minted["auditor"], pool, "pools:evict") == "no-grant"
    assert reason(authorizer, minted["globex"], draft("acme")) == "TENANT_MISMATCH"
    assert reason(authorizer, minted["acme-user"], draft("acme")) == "allowed"


@pytest.mark.parametrize(
    ("moment", "written"),
    [(0, "1970-01-01T00:00:00.000Z"), (NOON + 7, "2026-12-31T12:00:00.007Z")],
)
def test_instants_are_written_as_policies_compare_them(moment: int, written: str) -> None:
    assert embedded.iso(moment) == written
