"""A pool: a scheduling and policy domain in one site (domain.md §2)."""

from typing import Annotated, Literal, assert_never

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from domain.event import Event

Class = Literal["metal-host", "metal-dedicated", "vps-host", "provider"]
Sharing = Literal["exclusive", "mig", "timeslice", "mps"]
Agent = Literal["bcd", "none"]
Seconds = Annotated[int, Meta(ge=0, le=31_622_400)]
Ratio = Annotated[float, Meta(ge=0.1, le=64)]


class Slice(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One slice of a MIG layout: profile (`1g.10gb`) and the memory slice where it starts."""

    profile: Annotated[str, Meta(max_length=32)]
    start: Annotated[int, Meta(ge=0, le=7)]


class Overcommit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Ratio per scalar: floor(amount × ratio) of a node can be booked. Devices are never overcommitted."""

    vcpu: Ratio = 1.0
    memory_mib: Ratio = field(name="memoryMiB", default=1.0)


class SharingPolicy(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    replicas: Annotated[int, Meta(ge=2, le=64, description="slots per GPU")]


class Admission(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    budget_check: Literal["off", "confirm", "enforce"] = "off"


class Policy(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How a pool treats its nodes and claims; durations in whole seconds (domain.md §2).

    Nothing acts yet on `hardwareProfile` and `tenantRoot`: what is not their default is refused.
    """

    acceptance: Annotated[tuple[Annotated[str, Meta(max_length=63)], ...], Meta(max_length=32)] = ()
    overcommit: Overcommit = Overcommit()
    lost_after: Seconds = 300
    disruption_budget: Annotated[float, Meta(ge=0, le=1)] = 0.05
    admission: Admission = Admission()
    max_pending: Seconds = 86_400
    bind_timeout: Annotated[int, Meta(ge=1, le=86_400)] = 300
    spot_notice_seconds: Seconds = 60
    cleaning_seconds: Seconds = 0
    hardware_profile: Annotated[str, Meta(max_length=128)] | None = None
    sharing: SharingPolicy | None = None
    mig_layout: Annotated[tuple[Slice, ...], Meta(min_length=1, max_length=16)] | None = None
    tenant_root: bool = False


class Created(Event, frozen=True, tag="pool.created.1"):
    name: str
    site_id: str
    owner_tenant_id: str
    region: str
    class_: Class = field(name="class")
    gpu_model: str
    gpu_memory_gb: int
    sharing: Sharing
    agent: Agent
    policy: Policy
    at: int
    provider_account_id: str | None = None


class Renamed(Event, frozen=True, tag="pool.renamed.1"):
    name: str
    former: str
    owner_tenant_id: str


class PolicyChanged(Event, frozen=True, tag="pool.policy_changed.1"):
    policy: Policy


class Retired(Event, frozen=True, tag="pool.retired.1"):
    name: str
    owner_tenant_id: str
    at: int


Events = Created | Renamed | PolicyChanged | Retired


class State(Struct, frozen=True, rename="camel"):
    name: str = ""
    site_id: str = ""
    owner_tenant_id: str = ""
    region: str = ""
    class_: Class = field(default="metal-host", name="class")
    gpu_model: str = ""
    gpu_memory_gb: int = 0
    sharing: Sharing = "exclusive"
    agent: Agent = "bcd"
    policy: Policy = Policy()
    provider_account_id: str | None = None
    created_at: int = 0
    retired: bool = False


def evolve(state: State, event: Events) -> State:
    match event:
        case Created():
            return State(
                event.name,
                event.site_id,
                event.owner_tenant_id,
                event.region,
                event.class_,
                event.gpu_model,
                event.gpu_memory_gb,
                event.sharing,
                event.agent,
                event.policy,
                event.provider_account_id,
                event.at,
            )
        case Renamed(name=name):
            return replace(state, name=name)
        case PolicyChanged(policy=policy):
            return replace(state, policy=policy)
        case Retired():
            return replace(state, retired=True)
        case _:
            assert_never(event)


def binding(state: State) -> str | None:
    """The one binding that reservations of this pool may have (domain.md §4)."""
    if state.class_ == "vps-host":
        return "instance"
    if state.class_ == "metal-dedicated":
        return "node" if state.policy.tenant_root else None
    return "hold"


def cut(policy: Policy) -> tuple[int, tuple[tuple[int, str], ...]]:
    """How a pool's GPUs are cut up: slots a GPU, and the slices of a MIG layout, by start."""
    layout = tuple(sorted((piece.start, piece.profile) for piece in policy.mig_layout or ()))
    return (policy.sharing.replicas if policy.sharing else 1), layout


def device_classes(state: State) -> tuple[str, ...]:
    """The device classes whose devices are atoms here: a node is never sold twice through two classes."""
    return sold(state.class_, state.sharing)


def sold(class_: str, sharing: str) -> tuple[str, ...]:
    """That for which such a pool is there comes first."""
    if class_ == "metal-dedicated":
        return ("node",)
    slices = {"exclusive": "gpu", "mig": "gpu.mig", "timeslice": "gpu.slot", "mps": "gpu.slot"}
    return (slices[sharing], "nic.vf", "disk")


class View(State, frozen=True, kw_only=True, rename="camel"):
    """A pool as its owner sees it. Another tenant sees it with a plain policy: how it is run is the owner's affair."""

    id: str
    version: int


def view(id: str, state: State, version: int) -> View:
    return View(id=id, version=version, **asdict(state))


def tenant_view(id: str, state: State, version: int) -> View:
    shown = Policy(
        max_pending=state.policy.max_pending, sharing=state.policy.sharing, mig_layout=state.policy.mig_layout
    )
    return view(id, replace(state, policy=shown, provider_account_id=None), version)
