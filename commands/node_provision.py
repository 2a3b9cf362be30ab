"""A node on its way into service and out of it: adopt, inspect, commission, deploy, release, rescue, retire."""

from collections.abc import Callable

from commands import evacuating, teardown
from commands.gathering import Gathered
from commands.of_nodes import Act, declare, on_node
from commands.unit import Outcome, Unit
from domain import node, schedulability
from domain.event import Change
from domain.operation import Request


class Leave(Request, frozen=True, kw_only=True):
    """Refused while the node carries bookings; `force` fails what runs there and places the rest elsewhere."""

    id: str
    force: bool = False


def adopt(state: node.State, now: int) -> list[node.Events]:
    if state.provision_state == "adopted":
        return []
    return [node.move(state, "adopted", "Adopted", now)]


def inspect(state: node.State, now: int) -> list[node.Events]:
    return [] if state.provision_state == "inspecting" else [node.move(state, "inspecting", "Inspection", now)]


def commission(state: node.State, now: int) -> list[node.Events]:
    if state.provision_state == "commissioning":
        return []
    return [node.move(state, "commissioning", "Commissioning", now)]


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
    """The append refuses it while the node carries bookings (O13)."""
    if state.provision_state == "retired":
        return []
    moves: list[node.Events] = []
    if state.provision_state != "retiring":
        moves.append(node.move(state, "retiring", "Retired", now))
    return [
        *moves,
        *(node.PlanEnded(plan.id, now) for plan in state.plans),
        node.Assigned(state.role, None, None, state.pool_id),
        node.Moved("retired", "Retired", now),
    ]


def leave(decide: Callable[[node.State, int], list[node.Events]], reason: str) -> Callable[[Leave, Unit], Outcome]:
    """A handler for an act that ends a node's service; forced, it takes what is booked there with it."""

    def handle(command: Leave, unit: Unit) -> Outcome:
        unit.existing(command.id)
        gathered = Gathered(unit)
        if command.force:
            evacuating.force_out(unit.ports.store.carried(command.id), gathered, reason, unit.now)
        here = gathered.load(command.id)
        events = decide(here.state, unit.now)
        gathered.add([Change(command.id, here.version, tuple(schedulability.settle(here.state, events, unit.now)))])
        if gathered.load(command.id).state.provision_state == "retired":
            gathered.add(teardown.on_node(gathered, unit.ports.store.booked(command.id), command.id, unit.now))
        return Outcome(gathered.changes(first=command.id))

    return handle


OPERATIONS = (
    declare("nodes.adopt", "adopt", Act, on_node(adopt), "Accept a machine that is already installed"),
    declare("nodes.inspect", "inspect", Act, on_node(inspect), "Look at its hardware anew"),
    declare("nodes.commission", "commission", Act, on_node(commission), "Test it before it goes into service"),
    declare("nodes.deploy", "deploy", Act, on_node(deploy), "Bring it into service"),
    declare("nodes.release", "release", Leave, leave(release, "NodeReleased"), "Take it out of service, to be ready"),
    declare("nodes.rescue", "rescue", Act, on_node(rescue), "Set it aside for repair; what runs there stays"),
    declare("nodes.retire", "retire", Leave, leave(retire, "NodeRetired"), "Retire it for good"),
)
