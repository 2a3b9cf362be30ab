"""A node command: a durable one-shot message to one node, numbered and delivered in order (domain.md §8)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from domain import errors
from domain.event import Event

Name = Literal[
    "reboot",
    "inspect",
    "run-acceptance",
    "collect-diagnostics",
    "gpu-reset",
    "apply-mig-layout",
    "prefetch-image",
    "agent-upgrade",
    "instance-reboot",
]
Status = Literal["queued", "delivered", "succeeded", "failed", "expired", "cancelled"]
Purpose = Literal["adoption", "inspection", "commissioning", "assignment"]
"""Why a controller issued it: what its result decides."""

Check = Literal["gpus-present", "gpu-health", "nvlink-up", "memory", "disks", "network", "clock-synchronized"]
"""What acceptance can look at; a pool's policy names those that its nodes must pass."""

MOVES: Final[Mapping[Status, tuple[Status, ...]]] = {
    "queued": ("delivered", "expired", "cancelled"),
    "delivered": ("succeeded", "failed", "expired"),
    "succeeded": (),
    "failed": (),
    "expired": (),
    "cancelled": (),
}
FINAL: Final = frozenset(state for state, following in MOVES.items() if not following)
MAX_RESULT: Final = 65_536
"""Bytes of a result's JSON."""
GRACE_MS: Final = 60_000
"""What a node gets beyond its command's time: an agent ends by itself what takes too long, and says so."""

_NAMED: Final = re.compile(r"Object (?:missing required|contains unknown) field `([^`]*)`")
_PLACE: Final = re.compile(r"(.*) - at `\$\.(.*)`", re.DOTALL)


class Params(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a command of this type takes: nothing, where a type says no more."""


class Acceptance(Params, frozen=True):
    """Without `checks` those of the node's pool, and where it names none, all."""

    checks: Annotated[tuple[Check, ...], Meta(max_length=16)] = ()


class GpuReset(Params, frozen=True):
    gpu_uuid: Annotated[str, Meta(pattern=r"^GPU-[0-9a-f-]{36}$(?!\n)", description="as the inventory has it")]


class PrefetchImage(Params, frozen=True):
    """The bytes are kept under their digest; others than these are refused."""

    url: Annotated[str, Meta(max_length=2048, pattern=r"^https?://[!-~]+$(?!\n)")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="lower-case hex")]
    size_bytes: Annotated[int, Meta(ge=1, le=1 << 50)] | None = None


class AgentUpgrade(Params, frozen=True):
    version: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]*$(?!\n)")]


class InstanceReboot(Params, frozen=True):
    instance_id: Annotated[str, Meta(pattern=r"^inst_[0-9a-z]{52}$(?!\n)", description="as the NodeSpec has it")]


class Flags(Struct, frozen=True, rename="camel"):
    """`idempotent`: running it twice does no harm, so an agent that died meanwhile runs it again.

    `disruptive`: it ends what runs on the node, so it neither is issued nor begins while something is bound there.
    `exclusive`: it runs alone. `rejoin`: it is done when the node comes back with a new boot id.
    """

    idempotent: bool = False
    disruptive: bool = False
    exclusive: bool = False
    rejoin: bool = False


class Type(Struct, frozen=True, rename="camel"):
    """A command type. A node that has not answered so long after it began has failed."""

    name: Name
    summary: str
    flags: Flags
    timeout_seconds: int


_PARAMS: Final[Mapping[Name, type[Params]]] = {
    "run-acceptance": Acceptance,
    "gpu-reset": GpuReset,
    "prefetch-image": PrefetchImage,
    "agent-upgrade": AgentUpgrade,
    "instance-reboot": InstanceReboot,
}


def params(name: Name) -> type[Params]:
    return _PARAMS.get(name, Params)


def checked(name: Name, given: Mapping[str, Any]) -> dict[str, Any]:
    """The params as this command takes them; raises errors.Invalid naming `params.x`."""
    of = params(name)
    try:
        made: dict[str, Any] = msgspec.to_builtins(msgspec.convert(given, of))
        return made
    except msgspec.ValidationError as error:
        said = str(error)
    known = ", ".join(field.encode_name for field in msgspec.structs.fields(of)) or "none"
    if match := _NAMED.match(said):
        needed = "this is required" if "missing" in said else f"there is no such field; {name} takes: {known}"
        raise errors.Invalid(f"params.{match[1]}"[:300], needed)
    match = _PLACE.fullmatch(said)
    field, message = (f"params.{match[2]}", match[1]) if match else ("params", said)
    raise errors.Invalid(field[:300], message[:1].lower() + message[1:300])


TYPES: Final[Mapping[Name, Type]] = {
    of.name: of
    for of in (
        Type("reboot", "Boot the machine anew", Flags(disruptive=True, exclusive=True, rejoin=True), 1800),
        Type("inspect", "Look at the hardware again and report it", Flags(idempotent=True), 600),
        Type("run-acceptance", "Run named checks and report each", Flags(idempotent=True), 3600),
        Type("collect-diagnostics", "Report what helps to find a fault", Flags(idempotent=True), 600),
        Type("gpu-reset", "Reset one GPU", Flags(disruptive=True, exclusive=True), 600),
        Type(
            "apply-mig-layout",
            "Partition the GPUs as the NodeSpec says",
            Flags(idempotent=True, disruptive=True, exclusive=True),
            600,
        ),
        Type("prefetch-image", "Fetch an image and keep it under its digest", Flags(idempotent=True), 7200),
        Type("agent-upgrade", "Bring the agent to another version", Flags(idempotent=True, exclusive=True), 1800),
        Type("instance-reboot", "Boot one instance anew", Flags(), 300),
    )
}


class Issued(Event, frozen=True, tag="command.issued.1"):
    """It waits for its turn: not before `notBefore`, not after `notAfter`, not under a NodeSpec older than this.

    `flags` and `timeout_seconds` are its type's of that day.
    """

    node_id: str
    owner_tenant_id: str
    seq: int
    name: Name
    params: dict[str, Any]
    flags: Flags
    timeout_seconds: int
    not_after: int
    at: int
    not_before: int | None = None
    min_generation: int | None = None
    purpose: Purpose | None = None
    force: bool = False


class Delivered(Event, frozen=True, tag="command.delivered.1"):
    """It is handed to this session of the node, which has this boot id: it may run from now on."""

    session: int
    at: int
    boot_id: str | None = None


class Acknowledged(Event, frozen=True, tag="command.acknowledged.1"):
    """The node has it in its journal."""

    session: int
    at: int


class Succeeded(Event, frozen=True, tag="command.succeeded.1"):
    result: dict[str, Any]
    at: int


class Failed(Event, frozen=True, tag="command.failed.1"):
    reason: str
    result: dict[str, Any]
    at: int


class Expired(Event, frozen=True, tag="command.expired.1"):
    """`notAfter` passed before the node began."""

    at: int


class Cancelled(Event, frozen=True, tag="command.cancelled.1"):
    reason: str
    at: int


Events = Issued | Delivered | Acknowledged | Succeeded | Failed | Expired | Cancelled


class State(Struct, frozen=True, rename="camel"):
    node_id: str = ""
    owner_tenant_id: str = ""
    seq: int = 0
    name: Name = "collect-diagnostics"
    params: dict[str, Any] = {}
    flags: Flags = Flags()
    timeout_seconds: int = 0
    status: Status = "queued"
    reason: str | None = None
    result: dict[str, Any] | None = None
    purpose: Purpose | None = None
    force: bool = False
    not_before: int | None = None
    not_after: int = 0
    min_generation: int | None = None
    created_at: int = 0
    delivered_at: int | None = None
    acknowledged_at: int | None = None
    finished_at: int | None = None
    session: int | None = None
    boot_id: str | None = None


def evolve(state: State, event: Events) -> State:
    match event:
        case Issued():
            return State(
                node_id=event.node_id,
                owner_tenant_id=event.owner_tenant_id,
                seq=event.seq,
                name=event.name,
                params=event.params,
                flags=event.flags,
                timeout_seconds=event.timeout_seconds,
                purpose=event.purpose,
                force=event.force,
                not_before=event.not_before,
                not_after=event.not_after,
                min_generation=event.min_generation,
                created_at=event.at,
            )
        case Delivered():
            return replace(
                state, status="delivered", session=event.session, delivered_at=event.at, boot_id=event.boot_id
            )
        case Acknowledged(at=at):
            return replace(state, acknowledged_at=at)
        case Succeeded(result=result, at=at):
            return replace(state, status="succeeded", result=result, finished_at=at)
        case Failed():
            return replace(state, status="failed", reason=event.reason, result=event.result, finished_at=event.at)
        case Expired(at=at):
            return replace(state, status="expired", reason="NotAfterPassed", finished_at=at)
        case Cancelled(reason=reason, at=at):
            return replace(state, status="cancelled", reason=reason, finished_at=at)
        case _:
            assert_never(event)


def due_at(state: State) -> int | None:
    """When time alone ends it (epoch ms): too late to begin, or begun and not answered for too long.

    What is delivered may begin until `notAfter`; what is acknowledged has begun.
    """
    match state.status:
        case "queued":
            return state.not_after + 1
        case "delivered":
            begun = state.acknowledged_at or max(state.delivered_at or 0, state.not_after)
            return begun + 1000 * state.timeout_seconds + GRACE_MS
        case _:
            return None


def must_move(state: State, to: Status, verb: str) -> None:
    """Refuse a verb that the state does not take."""
    if to not in MOVES[state.status]:
        legal = ("cancel",) if state.status == "queued" else ()
        raise errors.IllegalTransition(state.status, verb, legal, final=state.status in FINAL)


class View(State, frozen=True, kw_only=True, rename="camel"):
    """A command as the node's owner sees it; instants in epoch ms."""

    id: str
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(id=id, version=version, **asdict(state))
