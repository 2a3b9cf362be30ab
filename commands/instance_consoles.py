"""What nodes send of their instances' consoles is kept for whoever owns the instance; the log has none of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from commands import together
from commands.ports import Store
from domain import errors, instance, node


class Tail(Struct, frozen=True):
    """The end of what an instance wrote; `total_bytes` is all that it ever did."""

    instance_id: str
    total_bytes: int
    text: str


class Written(Struct, frozen=True):
    """What a node says in a session."""

    node_id: str
    session: int
    tails: tuple[Tail, ...]


class Console(Struct, frozen=True):
    instance_id: str
    tenant_id: str
    total_bytes: int
    tail: str


class Consoles(Protocol):
    """Where the consoles of instances are kept, the last of each."""

    def keep(self, consoles: Sequence[Console]) -> None:
        """The tail of each takes the place of the one before."""

    def drop(self, instance_ids: Sequence[str]) -> None:
        """Delete them; what is not there is as good."""


def keep(store: Store, consoles: Consoles, written: Sequence[Written]) -> list[together.Fault]:
    """A node speaks for the instances that its NodeSpec has; of others nothing is kept. Two queries, one write."""
    nodes = _states(store, {one.node_id for one in written})
    faults = [_superseded(one, nodes[one.node_id]) for one in written]
    right = [tail for one, fault in zip(written, faults, strict=True) if not fault for tail in _its(one, nodes)]
    instances = _states(store, {tail.instance_id for tail in right})
    known = [(tail, _draft(instances[tail.instance_id])) for tail in right]
    consoles.keep([Console(t.instance_id, draft.tenant_id, t.total_bytes, t.text) for t, draft in known if draft])
    return faults


def _its(one: Written, nodes: Mapping[str, node.State]) -> list[Tail]:
    has = {instance.id for instance in nodes[one.node_id].instances}
    return [tail for tail in one.tails if tail.instance_id in has]


def _states(store: Store, streams: set[str]) -> dict[str, Any]:
    wanted = sorted(streams)
    return {id: loaded.state for id, loaded in zip(wanted, store.load_all(wanted), strict=True)} if wanted else {}


def _superseded(one: Written, state: node.State) -> together.Fault:
    same = state.session == one.session
    return None if same else errors.Fenced(f"session {one.session} of {one.node_id} was superseded")


def _draft(state: instance.State) -> instance.Drafted | None:
    return state.draft if state.ended_at is None else None
