"""Nodes that share a hardware identifier: it counts for neither, and the later one is marked (domain.md §3)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from commands import hardware
from commands.gathering import Loads
from commands.ports import Store
from domain import node, schedulability
from domain.event import Change, Meta

DUPLICATE = "DuplicateHardware"
STRANGER = "another tenant's node"


class Twins(Struct, frozen=True):
    """Who else holds a node's identifiers now; `strangers` are those of other tenants."""

    by_identifier: dict[str, tuple[str, ...]]
    strangers: frozenset[str] = frozenset()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({other for others in self.by_identifier.values() for other in others}))

    @property
    def taken(self) -> tuple[str, ...]:
        """The identifiers that count for neither."""
        return tuple(sorted(i for i, others in self.by_identifier.items() if others))


def of(store: Store, node_id: str, owner: str, identifiers: Sequence[str]) -> Twins:
    """The other live nodes that hold one of these identifiers; `owner` is the tenant of the node itself."""
    return _but(store, node_id, owner, store.holders(identifiers))


def _but(store: Store, node_id: str, owner: str, holders: Mapping[str, Iterable[str]]) -> Twins:
    others = {i: tuple(sorted(set(nodes) - {node_id})) for i, nodes in holders.items()}
    found = {other for nodes in others.values() for other in nodes}
    return Twins(others, frozenset(other for other in found if store.load(other).state.owner_tenant_id != owner))


def named(state: node.State) -> tuple[str, ...]:
    """The nodes that the condition names, none where it is not raised."""
    held = next((c for c in state.conditions if c.type == DUPLICATE), None)
    return held.names if held else ()


def earlier(store: Store, node_id: str, state: node.State, twins: Twins) -> tuple[str, ...]:
    """The nodes that held an identifier of this one first and are not settled: the later one is the duplicate.

    What this node reported before the other came stays its own: a newcomer cannot take a running node out.
    """
    known = named(state)
    first = {
        other
        for i, others in twins.by_identifier.items()
        for other in others
        if i not in state.identifiers or other in known
    }
    settled = {other for other in first if node_id in store.load(other).state.settled}
    return tuple(sorted(first - settled - set(state.settled)))


def mark(state: node.State, names: Sequence[str], strangers: Collection[str], now: int) -> list[node.Events]:
    """Raise DuplicateHardware naming exactly these nodes, or clear it; what it says already changes nothing.

    The message names no node of another tenant, and the view shows what the message names (domain.md §10).
    """
    if tuple(names) == named(state):
        return []
    if not names:
        return [node.ConditionCleared(DUPLICATE, now)]
    message = ", ".join(STRANGER if name in strangers else name for name in names)
    return [node.ConditionRaised(node.Condition(DUPLICATE, "IdentifierShared", message, now, names=tuple(names)))]


def without(state: node.State, gone: Collection[str], now: int) -> list[node.Events]:
    """The condition without these nodes; of whose tenant the others are stays as it was said."""
    said = _message(state)
    left = [name for name in named(state) if name not in gone]
    return mark(state, left, {name for name in left if name not in said}, now)


def _message(state: node.State) -> list[str]:
    return [part for c in state.conditions if c.type == DUPLICATE for part in c.message.split(", ")]


def beside(
    store: Store,
    node_id: str,
    before: Sequence[str],
    after: Sequence[str],
    now: int,
    loads: Loads | None = None,
) -> list[Change]:
    """The nodes that share with this one, looked at again: it held `before`, and holds `after` from this append on.

    What is shared leaves their fingerprints, what is theirs alone again comes back, and so does their schedulability.
    That says nothing of who this node is or who acted on it: the others may be another tenant's (domain.md §10).
    """
    changes = []
    for other in of(store, node_id, "", [*{*before, *after}]).nodes:
        loaded = (loads or store).load(other)
        state: node.State = loaded.state
        holders = {
            i: {*nodes, node_id} if i in after else {*nodes} - {node_id}
            for i, nodes in store.holders(state.identifiers).items()
        }
        twins = _but(store, other, state.owner_tenant_id, holders)
        events = _again(state, twins, now)
        if events:
            meta = Meta("controller:twins", state.admission_id)
            changes.append(Change(other, loaded.version, tuple(schedulability.settle(state, events, now)), meta))
    return changes


def _again(state: node.State, twins: Twins, now: int) -> list[node.Events]:
    """Only a report of its own makes a node the later one; here it can only lose twins."""
    if state.inventory is None:
        return []
    seen = hardware.snapshot(state.inventory, twins.nodes, twins.taken, now)
    known = (state.fingerprint, state.fingerprint_trusted)
    events: list[node.Events] = [seen] if (seen.fingerprint, seen.trusted) != known else []
    left = [name for name in named(state) if name in twins.nodes]
    return events + mark(state, left, twins.strangers, now)


def left_behind(store: Store, loads: Loads, node_id: str, state: node.State, now: int) -> list[Change]:
    """What a retirement gives back to the nodes that shared identifiers with this one, as `loads` shows them."""
    return beside(store, node_id, state.identifiers, (), now, loads)
