"""How an event of the log stands in the chain of each tenant whose event it is (api.md §6, iam.md §17)."""

import msgspec
import pytest

from domain import admission, audit_event, chain, reservation
from domain.event import Event, Meta, Recorded

CALLER = admission.Caller(
    "acme", "alice", "user", "ses_1", "delegated", agent_id="agt_1", delegation_id="dlg_1", impersonator_id="bob"
)
DECIDED = (
    admission.Decided("pools:use", "compute-pool/pool_1", True, "ALLOWED"),
    admission.Decided("reservations:create", "compute-reservation/rsv_1", True, "ROOT_OVERRIDE"),
)
ADMITTED = admission.Admitted(CALLER, "req-1", DECIDED, "d")
REFUSED = admission.Refused(CALLER, "req-1", "nodes:cordon", "compute-node/a/b", "DENIED", "d")


def recorded(event: Event, stream: str = "adm_1", meta: Meta | None = None, stored_as: str = "") -> Recorded:
    meta = meta or Meta("identity:acme/alice", "adm_1", correlation="req-1")
    return Recorded(stream, 1, event, meta, "evt_1", 17, 1790, tenants=("acme", "cloud"), stored_as=stored_as)


def test_an_admission_says_what_was_decided_last_and_in_which_session():
    assert audit_event.of(recorded(ADMITTED), "ab", "acme") == {
        "id": "evt_1",
        "tenantId": "acme",
        "actorId": "alice",
        "action": "reservations:create",
        "resourceId": "rsv_1",
        "outcome": "allow",
        "timestamp": 1790,
        "rootOverride": True,
        "impersonatorId": "bob",
        "sessionContext": {"sessionId": "ses_1", "kind": "delegated", "agentId": "agt_1", "delegationId": "dlg_1"},
        "metadata": {
            "position": 17,
            "stream": "adm_1",
            "version": 1,
            "type": "admission.recorded.1",
            "digest": "ab",
            "admissionId": "adm_1",
            "requestId": "req-1",
            "reason": "ROOT_OVERRIDE",
        },
    }


def test_another_tenant_learns_which_tenant_acted_and_no_more():
    shown = audit_event.of(recorded(REFUSED), "ab", "cloud")
    assert (shown["actorId"], shown["outcome"], shown["resourceId"]) == ("acme", "deny", "a/b")
    assert set(shown) == {"id", "tenantId", "actorId", "action", "resourceId", "outcome", "timestamp", "metadata"}
    assert set(shown["metadata"]) == {"position", "stream", "version", "type", "digest", "admissionId"}


@pytest.mark.parametrize("actor", ["agent:node_1", "controller:scheduler"])
def test_agents_and_controllers_are_named_as_they_are_to_everyone(actor):
    one = recorded(reservation.Cancelled("x", 1), "rsv_1", Meta(actor, "adm_1"))
    for tenant in ("acme", "cloud"):
        shown = audit_event.of(one, "ab", tenant)
        assert (shown["actorId"], shown["action"], shown["resourceId"]) == (actor, "reservation.cancelled.1", "rsv_1")


def test_refusals_that_were_counted_are_denials_of_nothing_named():
    shown = audit_event.of(recorded(admission.RefusalsCounted(CALLER, 3)), "ab", "acme")
    assert (shown["action"], shown["outcome"]) == ("admission.refusals_counted.1", "deny")


def test_the_name_is_the_stored_one_whatever_shape_the_event_has_today():
    shown = audit_event.of(recorded(reservation.Cancelled("x", 1), stored_as="reservation.cancelled.0"), "ab", "acme")
    assert shown["action"] == shown["metadata"]["type"] == "reservation.cancelled.0"


def test_the_fleet_sees_it_wholly_in_the_name_of_who_acted():
    assert audit_event.of_fleet(recorded(REFUSED), "ab") == audit_event.of(recorded(REFUSED), "ab", "acme")
    unowned = msgspec.structs.replace(recorded(REFUSED, meta=Meta("agent:n")), tenants=())
    assert audit_event.of_fleet(unowned, "ab")["tenantId"] == "acme"


@pytest.mark.parametrize(
    ("event", "tenant", "hash"),
    [
        (ADMITTED, "acme", "bcb78d988910b19897af178efc275fe7f5187e04e20b962b99af4522f6bdfb8f"),
        (ADMITTED, "cloud", "a5cc7d51b80bf887334fd6be1360f882b2de3c85442a6d74a541e232464dc087"),
        (REFUSED, "acme", "e9062b63c6e552a35392050f185dc70a9488272cffbc7b5562571d8231408524"),
        (reservation.Cancelled("x", 1), "cloud", "1e9025e182324e7318463adbe6df08409e09a9a8714766b8219a2e2df3c5d8a7"),
    ],
)
def test_what_was_hashed_once_has_the_same_hash_for_ever(event, tenant, hash):
    """Chains rest on it: a field may come with events of new names, nothing else ever changes."""
    assert chain.digest(audit_event.of(recorded(event), "ab", tenant)) == hash


def test_it_takes_its_place_in_a_chain():
    event = audit_event.of(recorded(ADMITTED), "ab", "acme")
    head = chain.link(event, chain.Head())
    assert chain.verify([event], head=head).valid
