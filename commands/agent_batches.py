"""What many agents bring about at once, recorded many to an append: a fleet that comes back.

Each of these takes the common case of all it is given in a handful of queries and one append. What is not the common
case, and all when the append was refused, goes one by one the way of `commands.agents`.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from commands import agents, hardware, health, together, twins
from commands.ports import Loaded, Store
from domain import errors, fingerprint, node, pool, schedulability
from domain.event import Change, Meta
from domain.ids import Mint
from domain.inventory import NodeInventory


class Opening(Struct, frozen=True):
    """An agent that asks for a session; `knows` says whether the holder of a public key is who asks."""

    node_id: str
    gateway: str
    hello: agents.Hello
    knows: Callable[[str], bool]


class Opened(Struct, frozen=True):
    """`session` is the epoch; with a `fault` it is what it may have become all the same, 0 when surely nothing."""

    session: int
    fault: together.Fault = None


class Inventory(Struct, frozen=True):
    node_id: str
    session: int
    found: NodeInventory


def open_sessions(store: Store, asked: Sequence[Opening], new_id: Mint) -> list[Opened]:
    """Record who is connected. Missing, retired and unknown are one answer: NotFound."""
    found = store.load_all([one.node_id for one in asked])
    answers: list[Opened] = []
    changes: dict[str, Change] = {}
    now = store.now()
    for one, loaded in zip(asked, found, strict=True):
        state: node.State = loaded.state
        if loaded.version == 0 or state.provision_state == "retired" or not one.knows(state.public_key):
            answers.append(Opened(0, errors.NotFound("node", one.node_id)))
            continue
        answers.append(Opened(state.session + 1))
        if not state.commands and one.node_id not in changes:
            with together.alone_if_it_fails(store):
                changes[one.node_id] = _opening(one, loaded, now)
    joint = together.append(store, list(changes.values()))
    done = set()
    for at, (one, answer) in enumerate(zip(asked, answers, strict=True)):
        if answer.fault is not None:
            continue
        if one.node_id in changes and one.node_id not in done and together.for_all(joint):
            answers[at] = replace(answer, fault=joint)
            done.add(one.node_id)
        else:
            answers[at] = _open(store, _held_to(one, found[at].state), answer.session, new_id)
    return answers


def _opening(one: Opening, loaded: Loaded, now: int) -> Change:
    state: node.State = loaded.state
    events = agents.opening(state, one.gateway, one.hello, now)
    said_by = Meta(f"agent:{one.node_id}", state.admission_id)
    return Change(one.node_id, loaded.version, tuple(schedulability.settle(state, events, now)), said_by)


def _held_to(one: Opening, state: node.State) -> Opening:
    """Whoever asked was known by this key: one that replaced it meanwhile is another's."""
    return replace(one, hello=replace(one.hello, public_key=state.public_key))


def _open(store: Store, one: Opening, session: int, new_id: Mint) -> Opened:
    try:
        return Opened(agents.open_session(store, one.node_id, one.gateway, agents.Arrival(one.hello, new_id)))
    except Exception as fault:
        return Opened(session, fault)


def report_inventories(store: Store, reports: Sequence[Inventory]) -> list[together.Fault]:
    """Most are what they were: those bring no event, and the rest is told one by one."""
    found = store.load_all([one.node_id for one in reports])
    pools = sorted({loaded.state.pool_id for loaded in found if loaded.state.pool_id})
    of: dict[str | None, pool.State] = {
        pool_id: loaded.state for pool_id, loaded in zip(pools, store.load_all(pools), strict=True)
    }
    same = _unchanged(store, reports, [loaded.state for loaded in found], of)
    if same:
        store.saw_inventory(*(reports[at].node_id for at in same))
    return [
        None
        if at in same
        else together.tried(lambda one=one: agents.report_inventory(store, one.node_id, one.session, one.found))  # type: ignore[misc]
        for at, one in enumerate(reports)
    ]


def _unchanged(
    store: Store, reports: Sequence[Inventory], states: Sequence[node.State], of: Mapping[str | None, pool.State]
) -> list[int]:
    """Which of the reports bring no event."""
    known: dict[int, Sequence[str]] = {}
    for at, one in enumerate(reports):
        with together.alone_if_it_fails(store):
            known[at] = fingerprint.fingerprint(one.found).identifiers
    crowded = store.crowded([each for identifiers in known.values() for each in identifiers])
    now = store.now()
    same = []
    for at, identifiers in known.items():
        one, state = reports[at], states[at]
        alone = not crowded.intersection(identifiers) and set(identifiers) <= set(state.identifiers)
        if state.session != one.session or not alone or twins.named(state):
            continue
        with together.alone_if_it_fails(store):
            seen = hardware.snapshot(one.found, (), (), now)
            if not [*hardware.observe(state, seen, of.get(state.pool_id), (), now), *health.fresh(state, now)]:
                same.append(at)
    return same
