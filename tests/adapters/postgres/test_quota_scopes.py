"""Claims under offering, tenant and project: what an append checks under the rows' locks (architecture.md §2)."""

from collections.abc import Iterator

import pytest

from domain import errors, offering, project, quota, reservation, tenant
from domain.event import Append, Change
from facts import META, T0, Facts, at_once, facts, new_id

HOUR = 3_600_000


@pytest.fixture
def given(database: str) -> Iterator[Facts]:
    with facts(database, 16) as made:
        yield made


def project_of(given: Facts) -> str:
    project_id = new_id("prj")
    given.append(project_id, project.Created(project_id[-20:], "acme", {}, 1))
    return project_id


def limit(given: Facts, kind: quota.Kind, id: str, gpu: int) -> None:
    given.append(quota.stream(kind, id), quota.Set(kind, id, "acme", {"gpu": gpu}, 1))


def admit(given: Facts, pool_id: str, scopes: tuple[str, ...], gpus: int = 1) -> str:
    reservation_id = new_id("rsv")
    claimed = reservation.Claimed(scopes, {"gpu": gpus, "vcpu": 9}, T0, T0 + HOUR)
    events = (
        given.drafted(pool_id, gpus),
        reservation.Admitted("adm_1", claimed, 0),
        reservation.Queued(pool_id, 0, False, T0, "NoCapacity", T0 + HOUR),
    )
    given.store.append(Append((Change(reservation_id, 0, events),), META))
    return reservation_id


def test_the_least_of_all_scopes_counts_and_one_without_a_limit_not_at_all(given: Facts) -> None:
    pool_id = given.pool()
    given.append("tenant:acme", tenant.Recorded("acme", "active"))
    project_id = project_of(given)
    scopes = quota.scopes("acme", project_id)
    assert scopes == ("tenant:acme", project_id)
    admit(given, pool_id, scopes, 5)
    limit(given, "tenant", "acme", 7)
    limit(given, "project", project_id, 6)
    with pytest.raises(errors.QuotaExceeded) as refusal:
        admit(given, pool_id, scopes, 2)
    assert refusal.value.extra == {"kind": "project", "resource": "gpu", "limit": 6, "peak": 7}
    admit(given, pool_id, scopes[:1], 2)
    with pytest.raises(errors.QuotaExceeded) as refusal:
        admit(given, pool_id, scopes, 1)
    assert refusal.value.extra["kind"] == "tenant"
    admit(given, pool_id, scopes, 0)


def test_a_project_is_archived_before_or_after_a_claim_of_it_never_beside(given: Facts) -> None:
    """Whichever comes first: the log has no admission behind the archiving."""
    pool_id = given.pool()
    for _ in range(8):
        project_id = project_of(given)
        archive = project.Archived(project_id[-20:], "acme", 2)
        jobs = [lambda of=project_id: admit(given, pool_id, (of,)) for _ in range(4)]
        jobs.insert(2, lambda of=project_id, event=archive: str(given.append(of, event)))
        answers = at_once(jobs)
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert {(type(fault), fault.errors[0].field) for fault in refused} <= {(errors.Conflict, "projectId")}
        archived = given.store.load(project_id).position
        admitted = [given.store.load(answer).position for answer in answers if str(answer).startswith("rsv_")]
        assert all(position < archived for position in admitted)
        with pytest.raises(errors.Conflict, match="projectId"):
            admit(given, pool_id, (project_id,))


def test_appends_over_the_same_scopes_in_any_order_wait_for_each_other_and_never_deadlock(given: Facts) -> None:
    pool_id = given.pool()
    offers = [new_id("poff") for _ in range(2)]
    for n, offer_id in enumerate(offers):
        given.append(offer_id, offering.Offered(pool_id, "root", f"t{n}", {"gpu": 99, "vcpu": 999}, 0, False, 1))
    projects = [project_of(given) for _ in range(2)]
    given.append("tenant:acme", tenant.Recorded("acme", "active"))

    def job(n: int) -> str:
        scopes = [offers[n % 2], "tenant:acme", projects[n // 2 % 2]]
        return admit(given, pool_id, tuple(scopes if n % 3 else reversed(scopes)))

    assert [fault for fault in at_once([lambda n=n: job(n) for n in range(12)]) if isinstance(fault, Exception)] == []
