"""What Better IAM's answers mean here: who asks, may they, and what a list may show (iam.md §6, §12, §13, §19)."""

import logging
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from adapters.iam.better.answers import Unknown
from adapters.iam.better.authorizer import TRIES, BetterIam
from adapters.iam.better.client import Client
from domain import errors
from domain.access import Authorizer, Foresight, Plan, Resource, Session
from domain.policy import matching
from iam_server import faults
from iam_server.http import Server, serving
from iam_server.model import Iam

READ = "compute:reservations:get"
CREATE = "compute:reservations:create"
RESERVATION = Resource("compute-reservation", "rsv_1", "acme", {})


def resolved(tenant_id: str, type: str, id: str) -> dict[str, Any] | None:
    if tenant_id != "acme" or id.startswith("gone"):
        return None
    return {"tenantId": tenant_id, "type": type, "id": id, "attributes": {"ownerId": "alice"}}


@pytest.fixture
def server() -> Iterator[Server]:
    iam = Iam(frozenset({READ, CREATE}), resolved)
    iam.tenant("platform", None)
    iam.tenant("acme", "platform")
    with serving(iam) as served:
        yield served


@pytest.fixture
def authorizer(server: Server) -> Iterator[BetterIam]:
    client = Client(server.url, total_s=2.0, wait=lambda seconds: None)
    yield BetterIam(client, "platform")
    client.close()


def session(authorizer: BetterIam, token: str) -> Session:
    found = authorizer.identify(token)
    assert found is not None
    return found


def test_it_is_an_authorizer_that_reads_drafts_back(authorizer: BetterIam) -> None:
    port: Authorizer = authorizer
    assert port.needs_committed_draft


def test_a_caller_is_who_better_iam_says(server: Server, authorizer: BetterIam) -> None:
    found = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user", mfa=True))
    assert (found.tenant_id, found.identity_id, found.identity_kind) == ("acme", "alice", "user")
    assert (found.session_id, found.session_kind, found.mfa) == ("ses_1", "user", True)
    assert not found.root_tenant
    assert found.agent_id is found.delegation_id is None


def test_the_platforms_tenant_is_the_one_that_was_set(server: Server, authorizer: BetterIam) -> None:
    assert session(authorizer, server.iam.sign_in("root", "platform")).root_tenant


def test_who_stands_behind_a_session_is_known(server: Server, authorizer: BetterIam) -> None:
    behind = {"impersonatorId": "bob", "roleId": "role_1", "trustId": "trust_1"}
    role = session(authorizer, server.iam.sign_in("alice", "acme", kind="role", more=behind))
    assert (role.impersonator_id, role.role_id, role.trust_id) == ("bob", "role_1", "trust_1")
    delegated = session(authorizer, server.iam.delegate("alice", "acme", "robot"))
    assert (delegated.identity_id, delegated.identity_kind, delegated.session_kind) == ("alice", "user", "delegated")
    assert (delegated.agent_id, delegated.delegation_id) == ("robot", "dlg_robot")
    agent = session(authorizer, server.iam.sign_in("robot", "acme", kind="api-key", identity_kind="agent"))
    assert agent.agent_id == "robot"


def test_a_token_shows_itself_nowhere(server: Server, authorizer: BetterIam) -> None:
    token = server.iam.sign_in("alice", "acme")
    assert token not in repr(session(authorizer, token))


@pytest.mark.parametrize("more", [{"kind": "psychic"}, {"identity_kind": "ghost"}, {"kind": "delegated"}])
def test_a_session_of_unknown_kind_is_nobodys(server: Server, authorizer: BetterIam, more: dict[str, Any]) -> None:
    assert authorizer.identify(server.iam.sign_in("alice", "acme", **more)) is None


def test_an_unknown_token_is_nobodys_and_garbage_is_not_even_asked_about(server: Server, authorizer: BetterIam) -> None:
    token = server.iam.sign_in("alice", "acme")
    assert authorizer.identify(token[:-1] + "!") is None
    assert authorizer.identify("") is None
    assert server.iam.asked == []
    assert authorizer.identify("a" * 43) is None
    assert server.iam.count("sts/getCallerIdentity") == 1


WRONG: list[Any] = [
    {"tenantId": "acme/eu"},
    {"identityId": 7},
    {"identityId": ""},
    {"tenantId": "a\nb"},
    {"mfa": "yes"},
    {"mfa": None},
    {"agentId": ["x"]},
    {"sessionId": None},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_caller_told_in_the_wrong_form_is_no_caller(
    server: Server, authorizer: BetterIam, wrong: dict[str, Any]
) -> None:
    token = server.iam.sign_in("alice", "acme", more=wrong)
    with pytest.raises(Unknown):
        authorizer.identify(token)


@pytest.mark.parametrize(("code", "kind"), [("MFA_REQUIRED", "MfaRequired"), ("IP_BLOCKED", "AccessDenied")])
def test_a_session_that_is_turned_away_hears_why(server: Server, authorizer: BetterIam, code: str, kind: str) -> None:
    server.fail("sts/getCallerIdentity", faults.error(403, code))
    with pytest.raises(errors.AccessDenied) as refused:
        authorizer.identify(server.iam.sign_in("alice", "acme"))
    assert type(refused.value).__name__ == kind


def test_a_decision_is_one_question(server: Server, authorizer: BetterIam) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    decision = authorizer.authorize(alice, CREATE, RESERVATION)
    assert (decision.allowed, decision.reason, decision.policy_digest) == (True, "allowed", "")
    assert server.iam.count("authorize") == 1
    bob = session(authorizer, server.iam.sign_in("bob", "acme", "tenant-user"))
    assert authorizer.authorize(bob, CREATE, RESERVATION).reason == "ACCESS_DENIED"


def test_nothing_that_was_allowed_is_kept(server: Server, authorizer: BetterIam) -> None:
    token = server.iam.sign_in("alice", "acme", "tenant-user")
    alice = session(authorizer, token)
    assert authorizer.authorize(alice, READ, RESERVATION).allowed
    server.iam.sessions[token].roles.clear()
    assert not authorizer.authorize(alice, READ, RESERVATION).allowed
    del server.iam.sessions[token]
    with pytest.raises(errors.Unauthenticated):
        authorizer.authorize(alice, READ, RESERVATION)
    assert authorizer.identify(token) is None


def test_root_overrides_visibly_and_only_what_resolves(server: Server, authorizer: BetterIam) -> None:
    root = session(authorizer, server.iam.sign_in("root", "acme", mfa=True, root_admin=True))
    assert authorizer.authorize(root, CREATE, RESERVATION).reason == "ROOT_OVERRIDE"
    gone = Resource("compute-reservation", "gone", "acme", {})
    assert authorizer.authorize(root, CREATE, gone).reason == "RESOURCE_MISMATCH"


@pytest.mark.parametrize("code", ["MFA_REQUIRED", "RECENT_AUTH_REQUIRED", "RESOURCE_MISMATCH", "TENANT_UNAVAILABLE"])
def test_a_no_keeps_its_reason(server: Server, authorizer: BetterIam, code: str) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user", refuses={CREATE: code}))
    decision = authorizer.authorize(alice, CREATE, RESERVATION)
    assert (decision.allowed, decision.reason) == (False, code)


def test_a_catalog_that_differs_is_a_no_that_the_operator_hears_of(
    server: Server, authorizer: BetterIam, caplog: pytest.LogCaptureFixture
) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    server.fail("authorize", faults.error(400, "INVALID_ACTION"))
    with caplog.at_level(logging.ERROR):
        assert authorizer.authorize(alice, CREATE, RESERVATION).reason == "INVALID_ACTION"
    assert "catalog" in caplog.text


def test_an_authorize_without_an_answer_is_never_asked_again(server: Server, authorizer: BetterIam) -> None:
    done = Event()
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    server.fail("authorize", faults.silent(done), faults.hang_up)
    for calls in (1, 2):
        with pytest.raises(errors.Unavailable):
            authorizer.authorize(alice, CREATE, RESERVATION)
        assert server.iam.count("authorize") == calls
    done.set()


@pytest.mark.parametrize(
    "answer",
    [
        {"allowed": "true", "reason": "allowed"},
        {"allowed": 1, "reason": "allowed"},
        {"allowed": True},
        {"allowed": True, "reason": "because"},
        {"allowed": True, "reason": None},
        {"reason": "allowed"},
        [],
        None,
        True,
        {"allowed": False, "reason": "NO\0PE"},
        {"allowed": False, "reason": "NOPE\n"},
        {"allowed": False, "reason": "n" * 65},
        {"allowed": False, "reason": ""},
    ],
)
def test_a_decision_in_another_form_is_none(server: Server, authorizer: BetterIam, answer: Any) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    server.fail("authorize", faults.data(answer))
    with pytest.raises(Unknown):
        authorizer.authorize(alice, CREATE, RESERVATION)


def test_one_confirmation_is_good_for_one_authorize(server: Server, authorizer: BetterIam) -> None:
    token = server.iam.delegate("alice", "acme", "robot", "tenant-user", confirm=("compute:reservations:*",))
    robot = session(authorizer, token)
    assert not authorizer.authorize(robot, CREATE, RESERVATION).allowed
    server.iam.confirm(token, CREATE, "compute-reservation/rsv_1")
    assert authorizer.allowed(robot, [(CREATE, RESERVATION)]) == [False]
    assert authorizer.foresee(robot, CREATE, RESERVATION).verdict == "denied"
    assert authorizer.authorize(robot, CREATE, RESERVATION).allowed
    assert not authorizer.authorize(robot, CREATE, RESERVATION).allowed


def test_many_things_are_asked_about_in_chunks_and_one_that_is_gone_spoils_none(
    server: Server, authorizer: BetterIam
) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    things = [(READ, Resource("compute-reservation", f"rsv_{n}", "acme", {})) for n in range(120)]
    assert authorizer.allowed(alice, things) == [True] * 120
    assert server.iam.count("authorizeMany") == 3
    things[70] = READ, Resource("compute-reservation", "gone_1", "acme", {})
    expected = [True] * 70 + [False] + [True] * 49
    assert authorizer.allowed(alice, things) == expected
    assert authorizer.allowed(alice, []) == []
    assert server.iam.count("authorize") == 0


def test_answers_to_other_questions_are_none(server: Server, authorizer: BetterIam) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    other = {"action": READ, "resource": {"type": "compute-reservation", "id": "rsv_2"}, "allowed": True}
    for results in ([], [other], [other, other], [{"allowed": True}]):
        server.fail("authorizeMany", faults.data({"results": results}))
        with pytest.raises(Unknown):
            authorizer.allowed(alice, [(READ, RESERVATION)])


def test_a_plan_says_what_a_list_may_show(server: Server, authorizer: BetterIam) -> None:
    admin = session(authorizer, server.iam.sign_in("carol", "acme", "tenant-admin"))
    assert authorizer.plan(admin, READ, "compute-reservation") == Plan("always")
    nobody = session(authorizer, server.iam.sign_in("dave", "acme"))
    assert authorizer.plan(nobody, READ, "compute-reservation") == Plan("never")
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    plan = authorizer.plan(alice, READ, "compute-reservation")
    assert plan.kind == "conditional"
    assert plan.filter is not None
    assert [matching.matches(plan.filter, row) for row in ({"ownerId": "alice"}, {"ownerId": "bob"}, {})] == [
        True,
        False,
        True,
    ]
    server.fail("filters/plan", faults.error(400, "UNSUPPORTED_FILTER"))
    assert authorizer.plan(alice, READ, "compute-reservation") == Plan("unsupported")


def test_a_plan_foresees_a_decision(server: Server, authorizer: BetterIam) -> None:
    admin = session(authorizer, server.iam.sign_in("carol", "acme", "tenant-admin"))
    assert authorizer.foresee(admin, CREATE, RESERVATION) == Foresight("allowed", "allowed")
    nobody = session(authorizer, server.iam.sign_in("dave", "acme"))
    assert authorizer.foresee(nobody, CREATE, RESERVATION).verdict == "denied"
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    own, others = (Resource("compute-reservation", "rsv_1", "acme", {"ownerId": owner}) for owner in ("alice", "bob"))
    assert [authorizer.foresee(alice, CREATE, one).verdict for one in (own, others)] == ["allowed", "denied"]
    server.fail("filters/plan", faults.error(400, "UNSUPPORTED_FILTER"))
    assert authorizer.foresee(alice, CREATE, own).verdict == "unknown"
    assert server.iam.count("authorize") == 0


def nested(depth: int) -> Any:
    filter: Any = {"kind": "true"}
    for _ in range(depth):
        filter = {"kind": "not", "filter": filter}
    return filter


@pytest.mark.parametrize(
    "plan",
    [
        {"kind": "sometimes"},
        {"kind": "conditional"},
        {"kind": "conditional", "filter": None},
        {"kind": "conditional", "filter": {"kind": "magic"}},
        {"kind": "conditional", "filter": {"kind": "equals", "field": "x"}},
        {"kind": "conditional", "filter": {"kind": "equals", "field": "x", "values": [1], "unless": "y"}},
        {"kind": "conditional", "filter": {"kind": "or", "filters": [{"kind": "true", "but": 1}]}},
        {"kind": "conditional", "filter": {"kind": "and", "filters": {"kind": "true"}}},
        {"kind": "conditional", "filter": nested(100)},
        {"kind": "always", "tenantId": "globex"},
        {"kind": "always", "action": CREATE},
        {"kind": "always", "type": "compute-pool"},
    ],
)
def test_a_plan_of_another_form_shows_nothing(server: Server, authorizer: BetterIam, plan: dict[str, Any]) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    asked = {"tenantId": "acme", "action": READ, "type": "compute-reservation"}
    server.fail("filters/plan", faults.data(asked | plan))
    with pytest.raises(Unknown):
        authorizer.plan(alice, READ, "compute-reservation")


def test_a_host_that_finds_nothing_is_not_asked_about_each_thing(server: Server, authorizer: BetterIam) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    gone = [(READ, Resource("compute-reservation", f"gone_{n}", "acme", {})) for n in range(50)]
    with pytest.raises(Unknown, match="does not find"):
        authorizer.allowed(alice, gone)
    assert server.iam.count("authorizeMany") == TRIES


@pytest.mark.parametrize(
    ("status", "code", "hint"), [(403, "RESOURCE_MISMATCH", "resolver"), (400, "INVALID_ACTION", "catalog")]
)
def test_a_fault_of_the_connection_is_in_the_log(
    server: Server, authorizer: BetterIam, caplog: pytest.LogCaptureFixture, status: int, code: str, hint: str
) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    for method in ("authorize", "authorizeMany"):
        server.fail(method, faults.error(status, code))
    assert authorizer.authorize(alice, READ, RESERVATION).reason == code
    assert authorizer.allowed(alice, [(READ, RESERVATION)]) == [False]
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 2
    assert all(code in one and hint in one for one in told)


def test_one_batch_may_ask_of_several_actions(server: Server, authorizer: BetterIam) -> None:
    alice = session(authorizer, server.iam.sign_in("alice", "acme", "tenant-user"))
    assert authorizer.allowed(alice, [(READ, RESERVATION), ("compute:no", RESERVATION)]) == [True, False]
    assert server.iam.count("authorizeMany") == 1
