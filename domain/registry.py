"""Stored name to type, stream to aggregate: what the log can hold, and how each kind of stream folds."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, get_args

from msgspec import Struct

from domain import (
    admission,
    budget,
    clock,
    extension,
    flavor,
    image,
    image_signers,
    instance,
    instance_fold,
    join_token,
    node,
    node_command,
    node_fold,
    offering,
    pool,
    project,
    quota,
    reservation,
    reservation_fold,
    site,
    tenant,
)
from domain.event import Event, Recorded, tag


class Kind(Struct, frozen=True):
    """An aggregate: the word for it in messages, its empty state, its fold, and whose it is.

    Of streams that grow long, a snapshot is taken every so many events.
    """

    noun: str
    initial: Any
    evolve: Callable[[Any, Any], Any]
    events: tuple[type[Event], ...]
    tenants: Callable[[Any], tuple[str, ...]]
    snapshot_every: int = 0


def _owner(state: Any) -> tuple[str]:
    return (state.owner_tenant_id,)


def _tenant(state: Any) -> tuple[str]:
    return (state.tenant_id,)


def _both_sides(state: offering.State) -> tuple[str, str]:
    """An offer is an act on another tenant's view: it is of both."""
    return (state.owner_tenant_id, state.tenant_id)


def _caller(state: admission.State) -> tuple[str]:
    assert state.recorded is not None
    return (state.recorded.caller.tenant_id,)


def _claimant(state: reservation.State) -> tuple[str, ...]:
    return (state.draft.tenant_id,) if state.draft else ()


def _requester(state: extension.State) -> tuple[str, ...]:
    return (state.draft.tenant_id,) if state.draft else ()


def _drafter(state: instance.State) -> tuple[str, ...]:
    return (state.draft.tenant_id,) if state.draft else ()


def _nobody(state: clock.State | tenant.State) -> tuple[str, ...]:
    """The tenant tree, access files and controllers' clocks are the platform's to read, with scope=fleet."""
    return ()


KINDS: Final[dict[str, Kind]] = {
    "adm": Kind("admission", admission.State(), admission.evolve, get_args(admission.Events), _caller),
    "clock": Kind("clock", clock.State(), clock.evolve, get_args(clock.Events), _nobody),
    "budget": Kind("budget", budget.State(), budget.evolve, (budget.Set,), _tenant),
    "cmd": Kind("command", node_command.State(), node_command.evolve, get_args(node_command.Events), _owner),
    "ext": Kind("extension", extension.State(), extension.evolve, get_args(extension.Events), _requester),
    "flv": Kind("flavor", flavor.State(), flavor.evolve, get_args(flavor.Events), _owner),
    "img": Kind("image", image.State(), image.evolve, get_args(image.Events), _owner),
    "inst": Kind("instance", instance.State(), instance_fold.evolve, get_args(instance.Events), _drafter),
    "jt": Kind("join token", join_token.State(), join_token.evolve, get_args(join_token.Events), _tenant),
    "node": Kind("node", node.State(), node_fold.evolve, get_args(node.Events), _owner, snapshot_every=100),
    "poff": Kind("offering", offering.State(), offering.evolve, get_args(offering.Events), _both_sides),
    "pool": Kind("pool", pool.State(), pool.evolve, get_args(pool.Events), _owner),
    "prj": Kind("project", project.State(), project.evolve, get_args(project.Events), _owner),
    "quota": Kind("quota", quota.State(), quota.evolve, (quota.Set,), _tenant),
    "rsv": Kind("reservation", reservation.State(), reservation_fold.evolve, get_args(reservation.Events), _claimant),
    "signers": Kind("image signers", image_signers.State(), image_signers.evolve, (image_signers.Changed,), _tenant),
    "site": Kind("site", site.State(), site.evolve, get_args(site.Events), _owner),
    "tenant": Kind("tenant", tenant.State(), tenant.evolve, get_args(tenant.Events), _nobody),
}


def _types() -> dict[str, type[Event]]:
    known: dict[str, type[Event]] = {}
    for declared in (event for kind in KINDS.values() for event in kind.events):
        if known.setdefault(tag(declared), declared) is not declared:
            raise ValueError(f"the stored name {tag(declared)} is used twice")
    return known


TYPES: Final = _types()


@lru_cache(maxsize=65_536)
def kind(stream: str) -> Kind:
    """The aggregate that a stream belongs to, by its prefix: `node_…`, `tenant:…`, `access`."""
    if stream == tenant.ACCESS_STREAM:
        return KINDS["tenant"]
    return KINDS[stream.split(":" if ":" in stream else "_", 1)[0]]


def fold(stream: str, events: Iterable[Event], state: Any = None) -> Any:
    """The state after `events`, from the kind's empty state or from `state`."""
    of = kind(stream)
    state = of.initial if state is None else state
    for event in events:
        state = of.evolve(state, event)
    return state


def fold_recorded(stream: str, recorded: Iterable[Recorded], state: Any = None) -> Any:
    return fold(stream, (one.event for one in recorded), state)
