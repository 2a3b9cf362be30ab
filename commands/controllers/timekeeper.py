"""What time alone brings about: starts, ends, and giving up (domain.md §5). Ends come before starts."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from commands import ending, instance_places, members, missing
from commands.acting import act, following
from commands.gathering import Gathered, Loads
from commands.ports import Loaded, Race, Store
from domain import errors, node, node_spec, pool, reservation, reservation_life, reservation_terms
from domain.event import Append, Change, Fence, Meta

JOB = "timekeeper"

Step = Literal["end", "lapse", "fail", "expire", "start", "activate", "replace", "notice", "nothing"]

_EXPIRES: Final[Mapping[reservation.Status, str]] = {
    "pending": "NoCapacity",
    "awaiting-confirmation": "ConfirmationTimeout",
    "draft": "NotDecided",
}


def due(state: reservation.State, now: int, back_at: int = 0) -> Step:
    """What is to happen to a reservation at `now` if nothing but time passed; `back_at` as in `lapses`; epoch ms."""
    match state.status:
        case "active" | "binding" if state.ends_at is not None and state.ends_at <= now:
            return "end"
        case "active" if reservation_terms.lapses(state, now, back_at):
            return "lapse"
        case "active" if (notice_at := reservation_terms.notice_at(state)) is not None and notice_at <= now:
            return "notice"
        case "binding" if state.fail_at is not None and state.fail_at <= now:
            return "fail"
        case "binding" if reservation_life.prepared(state):
            return "activate"
        case "active" if members.late(state, now) is not None:
            return "replace"
        case "placed" if state.ends_at is not None and state.ends_at <= now:
            return "expire"
        case "placed" if state.starts_at is not None and state.starts_at <= now:
            return "start"
        case "pending" if state.give_up_at is not None and state.give_up_at <= now:
            return "expire"
        case "awaiting-confirmation" if state.awaits is not None and state.awaits.until <= now:
            return "expire"
        case "draft" if state.since + reservation_terms.DRAFT_MS <= now:
            return "expire"
        case _:
            return "nothing"


def step(store: Store, reservation_id: str, fence: Fence, back_at: int = 0) -> int | None:
    """Do what is due for one reservation and return the position; None when there was nothing to do."""

    def decide() -> Sequence[Change]:
        loaded, now = store.load(reservation_id), store.now()
        state: reservation.State = loaded.state
        match due(state, now, back_at):
            case "end":
                return ending.end(store, reservation_id, loaded, reservation_terms.end_reason(state), now)
            case "lapse":
                return ending.end(store, reservation_id, loaded, "LeaseLapsed", now)
            case "notice":
                assert state.ends_at is not None
                return [Change(reservation_id, loaded.version, (reservation.Ending(state.ends_at, "Ended"),))]
            case "fail":
                return ending.end(store, reservation_id, loaded, "BindTimeout", now, failed=True)
            case "expire":
                reason = _EXPIRES.get(state.status, "WindowPassed")
                return [Change(reservation_id, loaded.version, (reservation.Expired(reason, now),))]
            case "start":
                return _bind(store, reservation_id, loaded, now, bool(store.blockers(reservation_id)))
            case "activate" if not store.blockers(reservation_id):
                return [Change(reservation_id, loaded.version, tuple(reservation_terms.activation(state, now)))]
            case "replace":
                return members.give_up(store, reservation_id, state, now)
            case "activate" | "nothing":
                return []

    cause = store.load(reservation_id)
    return act(store, following(f"controller:{JOB}", cause.state.admission_id, cause), decide, fence)


def start(store: Store, reservation_ids: Sequence[str], fence: Fence) -> list[str]:
    """Let those begin whose time has come, in a handful of queries and one append; what is left is to go alone."""
    now = store.now()
    known, wanted = _beginning(store, reservation_ids, now)
    blocked = store.blocked(wanted) if wanted else set()
    gathered = Gathered(store, known)
    for id in wanted:
        loaded = gathered.load(id)
        meta = following(f"controller:{JOB}", loaded.state.admission_id, loaded)
        gathered.add(replace(change, meta=meta) for change in _bind(gathered, id, loaded, now, id in blocked))
    try:
        if changes := gathered.changes():
            store.append(Append(changes, Meta(f"controller:{JOB}"), fence))
    except Race:
        return list(reservation_ids)
    except errors.Refusal as refusal:
        if isinstance(refusal, errors.Fenced | errors.Unavailable):
            raise
        return list(reservation_ids)
    return [id for id in reservation_ids if id not in wanted]


def _beginning(store: Store, ids: Sequence[str], now: int) -> tuple[dict[str, Loaded], list[str]]:
    """All that the beginning of these is about, and those that are to begin."""
    found = dict(zip(ids, store.load_all(ids), strict=True))
    placed: dict[str, reservation.State] = {id: of.state for id, of in found.items() if due(of.state, now) == "start"}
    streams = {a.node_id for of in placed.values() for a in of.allocations}
    streams |= {of.instance_id for of in placed.values() if of.instance_id}
    streams |= {of.draft.pool_id for of in placed.values() if of.draft}
    about = sorted(streams)
    return found | dict(zip(about, store.load_all(about), strict=True)) if about else found, list(placed)


def _bind(loads: Loads, reservation_id: str, loaded: Loaded, now: int, blocked: bool) -> list[Change]:
    """Every node's NodeSpec gets its allocation, and the instance that is to run on it, in the same append."""
    state: reservation.State = loaded.state
    assert state.draft is not None
    generations: dict[str, int] = {}
    told: list[Change] = []
    gone: set[str] = set()
    for allocation in state.allocations:
        on_node = loads.load(allocation.node_id)
        spec: node.State = on_node.state
        generation = generations[allocation.node_id] = spec.generation + 1
        added = node_spec.Allocation(allocation.id, reservation_id, allocation.cdi_devices)
        brings = instance_places.coming(loads, state, allocation, generation, now)
        event = node.SpecChanged(generation=generation, added=(added,), instances=brings.instances)
        told += [Change(allocation.node_id, on_node.version, (event,)), *brings.changes]
        gone |= missing.already(spec, allocation.atoms)
    of: pool.State = loads.load(state.draft.pool_id).state
    waits_for = "AtomNotReleased" if blocked else None
    started = reservation.BindingStarted(generations, now, now + of.policy.bind_timeout * 1000, waits_for)
    return [Change(reservation_id, loaded.version, (started, *members.lacks(state, gone, now))), *told]
