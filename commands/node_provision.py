"""A node on its way into service and out of it: adopt, inspect, commission, deploy, release, rescue, retire."""

from collections.abc import Callable

from commands import acceptance, evacuating, node_commands, teardown, twins
from commands.gathering import Gathered
from commands.of_nodes import Act, declare, on_node
from commands.ports import Loaded
from commands.unit import Outcome, Unit, changed
from domain import node, pool, provision, schedulability
from domain.event import Change
from domain.operation import Request


class Leave(Request, frozen=True, kw_only=True):
    """Refused while the node carries bookings; `force` fails what runs there and places the rest elsewhere."""

    id: str
    force: bool = False


def adopt(command: Act, unit: Unit) -> Outcome:
    """Adopted once it passed what its pool demands, at once where that is nothing."""
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    match state.provision_state:
        case "adopted":
            return _on(command.id, loaded, [], unit)
        case "rescue":
            return _on(command.id, loaded, [node.move(state, "adopted", "RescueEnded", unit.now)], unit)
        case "failed":
            events: list[node.Events] = [node.move(state, "adopting", "Adoption", unit.now)]
        case _:
            provision.check(state.provision_state, "adopted")
            events = []
    demanded = checks(state, unit)
    if not demanded:
        return _on(command.id, loaded, [*events, node.Moved("adopted", "Adopted", unit.now)], unit)
    if node_commands.outstanding(unit.ports.store, state, "adoption"):
        return _on(command.id, loaded, events, unit)
    issued, queued = acceptance.demand(command.id, state, demanded, "adoption", unit.new_id, unit.now)
    return _on(command.id, loaded, [*events, queued], unit, issued)


def inspect(command: Act, unit: Unit) -> Outcome:
    """Its agent looks at the hardware anew; what it finds leads on to commissioning."""
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    if state.provision_state == "inspecting":
        return _on(command.id, loaded, [], unit)
    moved = node.move(state, "inspecting", "Inspection", unit.now)
    issued, queued = node_commands.queue(
        state, command.id, unit.new_id("cmd"), "inspect", unit.now, purpose="inspection"
    )
    return _on(command.id, loaded, [moved, queued], unit, issued)


def commission(command: Act, unit: Unit) -> Outcome:
    """Goes on without waiting for the inspection: ready once it passed what its pool demands."""
    loaded = unit.existing(command.id)
    state: node.State = loaded.state
    if state.provision_state in ("commissioning", "ready"):
        return _on(command.id, loaded, [], unit)
    provision.check(state.provision_state, "commissioning")
    followed = acceptance.commission(command.id, state, [], checks(state, unit), unit.new_id, unit.now)
    return _on(command.id, loaded, followed.events, unit, *followed.changes)


def checks(state: node.State, unit: Unit) -> tuple[str, ...]:
    """What the node's pool demands of it."""
    policy: pool.Policy = unit.load(state.pool_id).state.policy if state.pool_id else pool.Policy()
    return policy.acceptance


def _on(node_id: str, loaded: Loaded, events: list[node.Events], unit: Unit, *others: Change) -> Outcome:
    settled = schedulability.settle(loaded.state, events, unit.now)
    return Outcome((changed(node_id, loaded, settled), *others))


def deploy(state: node.State, now: int) -> list[node.Events]:
    """Into service: deployed once the node has seen the NodeSpec's next generation; out of rescue at once."""
    match state.provision_state:
        case "deploying" | "deployed":
            return []
        case "rescue":
            return [node.move(state, "deployed", "RescueEnded", now)]
        case _:
            return [node.move(state, "deploying", "Deployment", now), node.SpecChanged(state.generation + 1)]


def release(state: node.State, now: int) -> list[node.Events]:
    """Out of service: ready once the node says that it holds nothing; the append refuses it while something goes on."""
    if state.provision_state == "releasing":
        return []
    return [node.move(state, "releasing", "Release", now), node.SpecChanged(state.generation + 1)]


def rescue(state: node.State, now: int) -> list[node.Events]:
    return [] if state.provision_state == "rescue" else [node.move(state, "rescue", "Rescue", now)]


def retire(state: node.State, now: int) -> list[node.Events]:
    """The append refuses it while the node carries bookings (O13). Its session is superseded: it is heard no more."""
    if state.provision_state == "retired":
        return []
    moves: list[node.Events] = []
    if state.provision_state != "retiring":
        moves.append(node.move(state, "retiring", "Retired", now))
    return [
        *moves,
        *(node.PlanEnded(plan.id, now) for plan in state.plans),
        node.ConnectivityChanged("disconnected", state.session + 1, now),
        node.Assigned(state.role, None, None, state.pool_id),
        node.Moved("retired", "Retired", now),
    ]


def leave(decide: Callable[[node.State, int], list[node.Events]], reason: str) -> Callable[[Leave, Unit], Outcome]:
    """A handler for an act that ends a node's service; forced, it takes what is booked there with it."""

    def handle(command: Leave, unit: Unit) -> Outcome:
        unit.existing(command.id)
        gathered = Gathered(unit)
        if command.force:
            evacuating.leave(unit.ports.store.carried(command.id), command.id, gathered, reason, unit.now)
        here = gathered.load(command.id)
        events = decide(here.state, unit.now)
        gathered.add([Change(command.id, here.version, tuple(schedulability.settle(here.state, events, unit.now)))])
        if gathered.load(command.id).state.provision_state == "retired":
            _lay_down(command.id, gathered, unit)
        return Outcome(gathered.changes(first=command.id))

    return handle


def _lay_down(node_id: str, gathered: Gathered, unit: Unit) -> None:
    """A retired node holds nothing any more and has nothing to do; its identifiers are others' alone again."""
    gathered.add(teardown.on_node(gathered, unit.ports.store.booked(node_id), node_id, unit.now))
    here = gathered.load(node_id)
    dropped, events = node_commands.drop_all(unit.ports.store, here.state, "NodeRetired", unit.now)
    gathered.add([*dropped, Change(node_id, here.version, tuple(events))])
    gathered.add(twins.left_behind(unit.ports.store, gathered, node_id, here.state, unit.now))


OPERATIONS = (
    declare("nodes.adopt", "adopt", Act, adopt, "Accept a machine that is already installed"),
    declare("nodes.inspect", "inspect", Act, inspect, "Examine a node's hardware again"),
    declare("nodes.commission", "commission", Act, commission, "Test a node before it goes into service"),
    declare("nodes.deploy", "deploy", Act, on_node(deploy), "Bring a node into service"),
    declare("nodes.release", "release", Leave, leave(release, "NodeReleased"), "Take a node out of service"),
    declare("nodes.rescue", "rescue", Act, on_node(rescue), "Set a node aside for repair; what runs there stays"),
    declare("nodes.retire", "retire", Leave, leave(retire, "NodeRetired"), "Retire a node for good"),
)
