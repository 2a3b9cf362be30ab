"""An offering with what is used of it: for the tenant that has it, and for the pool's owner (domain.md §2, §10)."""

from msgspec.structs import asdict

from domain import errors, ids, offering
from domain.operation import Answer, Known, Operation
from queries import quotas
from queries.reading import Reader, known


class Get(Known, frozen=True, kw_only=True):
    id: str


class View(offering.View, frozen=True, kw_only=True, rename="camel"):
    """An offering and its use at the instant `at` (epoch ms), by those whose claims count in it."""

    at: int
    resources: tuple[quotas.Use, ...]


def get(query: Get, read: Reader) -> Answer:
    """Seen by the pool's owner and by the tenant that it is offered to, as `pools.offers` shows it."""
    loaded = known(read, ids.parse("poff", query.id))
    state: offering.State = loaded.state
    pool = read.resolve("compute-pool", state.pool_id) if loaded.version else None
    if pool is None or read.session.tenant_id not in (state.owner_tenant_id, state.tenant_id):
        raise read.unseen("offering", query.id, "id")
    read.decide(pool)
    resources = quotas.uses(read, query.id, state.quota, unnamed=0)
    body = View(id=query.id, version=loaded.version, at=read.now, resources=resources, **asdict(state))
    return Answer(body=body, position=read.position, version=loaded.version, of_the_moment=True)


OPERATIONS = (
    Operation(
        name="offerings.get",
        verb="GET",
        path="/v1/offerings/{id}",
        request=Get,
        response=View,
        on=("compute-pool/{poolId}",),
        decided_inside=True,
        handle=get,
        summary="Show an offering: its quota, what is used of it now, and the peak from now on",
        refusals=(errors.AccessDenied, errors.NotFound, errors.ProjectionBehind, errors.HistoryPruned),
    ),
)
