"""A machine that was installed anew: a token made for its node gives that node the new key (api.md §4)."""

from commands import hardware, missing, twins
from commands.ports import Store
from commands.unit import Unit
from domain import errors, fingerprint, join_token, node, schedulability
from domain.event import Change
from domain.inventory import NodeInventory


def rekey(
    node_id: str, token_id: str, token_version: int, public_key: str, found: NodeInventory, unit: Unit
) -> tuple[Change, ...]:
    """The node keeps its name, labels, pool and bookings; what its old agent still says is refused.

    The old key verifies nothing any more, and the raised epoch ends the session that is open.
    """
    store = unit.ports.store
    loaded = unit.existing(node_id)
    state: node.State = loaded.state
    if state.provision_state == "retired":
        raise errors.Conflict("the node that this join token is for is retired")
    identifiers = fingerprint.fingerprint(found).identifiers
    check_machine(state, identifiers, twins.of(store, node_id, state.owner_tenant_id, state.identifiers).taken)
    now = unit.now
    events: list[node.Events] = [
        node.Rekeyed(public_key, state.public_key, token_id, now),
        node.ConnectivityChanged("disconnected", state.session + 1, now),
        *_inventory(store, node_id, state, found, now),
    ]
    used = Change(token_id, token_version, (join_token.Used(node_id),))
    besides = twins.beside(store, node_id, state.identifiers, identifiers, now)
    besides += missing.told(unit, f"agent:{node_id}", store.booked(node_id), node_id, events, now)
    return (Change(node_id, loaded.version, tuple(schedulability.settle(state, events, now))), used, *besides)


def check_machine(state: node.State, identifiers: tuple[str, ...], taken: tuple[str, ...]) -> None:
    """Refuse another machine: where both have identifiers, one that no twin of the node has is in both.

    Where twins have them all, any will do.
    """
    own = set(state.identifiers) - set(taken) or set(state.identifiers)
    if own and identifiers and not own & set(identifiers):
        raise errors.Conflict(
            "this machine shares no hardware identifier with the node that the join token is for: "
            "use a join token without nodeId to make it a node of its own"
        )


def _inventory(store: Store, node_id: str, state: node.State, found: NodeInventory, now: int) -> list[node.Events]:
    others = twins.of(store, node_id, state.owner_tenant_id, fingerprint.fingerprint(found).identifiers)
    seen = hardware.snapshot(found, others.nodes, others.taken, now)
    of = store.load(state.pool_id).state if state.pool_id else None
    events = hardware.observe(state, seen, of, store.booked_devices(node_id), now)
    return events + twins.mark(state, twins.earlier(store, node_id, state, others), others.strangers, now)
