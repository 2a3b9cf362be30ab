"""What a reservation asks for: devices and scalars per node, and how many nodes (domain.md §5)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from domain import errors

DeviceClass = Literal["gpu", "gpu.mig", "gpu.slot", "nic.vf", "disk", "node"]
Scalar = Literal["vcpu", "memoryMiB"]
LabelKey = Annotated[str, Meta(min_length=1, max_length=63)]

GPU_CLASSES: frozenset[str] = frozenset({"gpu", "gpu.mig", "gpu.slot"})


class Colocation(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """All devices of the line hang on one NUMA node, or in one NVLink group."""

    colocate: Literal["numa", "nvlink"]


class DeviceLine(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """So many devices of one class on every node of the gang; `selector` is a CEL expression."""

    class_: DeviceClass = field(name="class")
    count: Annotated[int, Meta(ge=0, le=4096)]
    selector: Annotated[str, Meta(min_length=1, max_length=2048)] | None = None
    topology: Colocation | None = None


class Topology(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The gang's nodes share one value of the label `pack`, or all differ in the label `spread`."""

    pack: LabelKey | None = None
    spread: LabelKey | None = None

    def __post_init__(self) -> None:
        if (self.pack is None) == (self.spread is None):
            raise ValueError("name exactly one of `pack` and `spread`")


class Claim(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Amounts are per node of the gang; `scalars` are whole vCPUs and MiB."""

    devices: Annotated[tuple[DeviceLine, ...], Meta(min_length=1, max_length=16)]
    nodes: Annotated[int, Meta(ge=1, le=1024)] = 1
    topology: Topology | None = None
    scalars: dict[Scalar, Annotated[int, Meta(ge=0, le=2**40)]] = {}


def check(claim: Claim) -> None:
    """Refuse with errors.Invalid what has the right shape and still makes no sense.

    A claim of scalars alone (an instance without a GPU) is one line with count 0.
    """
    if not any(line.count for line in claim.devices) and not any(claim.scalars.values()):
        raise errors.Invalid("devices[0].count", "ask for at least one device, or for scalars")
    nodes_seen = 0
    for index, line in enumerate(claim.devices):
        if line.selector is not None and not line.selector.strip():
            raise errors.Invalid(f"devices[{index}].selector", "is blank; leave it out to match every device")
        if line.topology and line.topology.colocate == "nvlink" and line.class_ not in GPU_CLASSES:
            raise errors.Invalid(f"devices[{index}].topology.colocate", "only GPUs have NVLink groups")
        nodes_seen += line.count if line.class_ == "node" else 0
        if nodes_seen > 1:
            message = "a node has one `node` device; ask for more `nodes`"
            raise errors.Invalid(f"devices[{index}].count", message)


def resources(claim: Claim) -> dict[str, int]:
    """What the claim counts against quotas, over the whole gang; zeros are left out (domain.md §2)."""
    per_node: dict[str, int] = {}
    for line in claim.devices:
        per_node[line.class_] = per_node.get(line.class_, 0) + line.count
    per_node.update(claim.scalars.items())
    return {resource: amount * claim.nodes for resource, amount in per_node.items() if amount}


def gpu_count(claim: Claim, node_gpus: int) -> int:
    """The attribute gpuCount (domain.md §10); `node_gpus` are the GPUs of the pool's largest node."""
    weight = dict.fromkeys(GPU_CLASSES, 1) | {"node": node_gpus}
    return claim.nodes * sum(line.count * weight.get(line.class_, 0) for line in claim.devices)
