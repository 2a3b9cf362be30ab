"""What a node can sell: devices, and which of them are atoms (domain.md §4).

An atom's id is a hardware id that outlives reboots. A slice is keyed by the place its layout gives it
(`gi<start>`), not by the driver's instance number, which is dealt anew at every boot and would let a booking
point at another profile tomorrow; `driver_slices` says which instance stands there now.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from domain import gpu, inventory, mig
from domain.fingerprint import is_placeholder

Class = Literal["gpu", "gpu.mig", "gpu.slot", "nic.vf", "disk", "node"]
Sharing = Literal["exclusive", "mig", "timeslice", "mps"]
_CDI: Final = "nvidia.com/gpu="


class Version(Struct, frozen=True, tag_field="type", tag="version", gc=False):
    """An attribute that orders by its numbers: `535.54.03`."""

    value: Annotated[str, Meta(max_length=64)]


class Quantity(Struct, frozen=True, tag_field="type", tag="quantity", gc=False):
    """An attribute that orders as a Kubernetes quantity: `81920Mi`."""

    value: Annotated[str, Meta(max_length=64)]


Attribute = str | int | bool | Version | Quantity


class Device(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A unit of hardware. Only a bookable one is an atom; `cdi` is its name for a container runtime now."""

    id: str
    class_: Class = field(name="class")
    bookable: bool
    attributes: dict[str, Attribute] = {}
    parent: str | None = None
    gpu_product: str | None = None
    gpu_model: str | None = None
    memory_gb: int | None = None
    numa_node: int | None = None
    nvlink_group: int | None = None
    cdi: str | None = None


class DriverSlice(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The driver's own ids of the instance that stands in a slice's place since the last boot."""

    gi: int | None = None
    ci: int | None = None
    uuid: str | None = None


class Derived(Struct, frozen=True, rename="camel"):
    """A node's devices under its pool's sharing.

    `partition_pending` are the UUIDs of GPUs that are not (yet) partitioned as the pool wants them; `scalars`
    are vcpu and memoryMiB before overcommit.
    """

    devices: tuple[Device, ...]
    partition_pending: tuple[str, ...]
    driver_slices: dict[str, DriverSlice]
    scalars: dict[str, int]


def devices(
    found: inventory.NodeInventory,
    *,
    node_id: str,
    pool_class: str,
    sharing: Sharing = "exclusive",
    replicas: int = 2,
    mig_layout: Sequence[mig.Piece] = (),
) -> Derived:
    """Says which devices exist and which are atoms; the GPUs' model names come from gpu.py's table.

    In a metal-dedicated pool the node is the only atom, elsewhere it never is, so that nothing is sold twice
    through two classes.
    """
    slices = {g.uuid: _standing(g, mig_layout) for g in found.gpus} if sharing == "mig" else {}
    all_devices = [
        *(d for g in found.gpus for d in _of_gpu(found, g, sharing, replicas, mig_layout, slices)),
        *_vfs(found.nics),
        *_disks(found.disks),
    ]
    if pool_class == "metal-dedicated":
        all_devices = [replace(device, bookable=False) for device in all_devices]
    node = _node(found, node_id, bookable=pool_class == "metal-dedicated")
    return Derived(
        devices=(*all_devices, node),
        partition_pending=tuple(g.uuid for g in found.gpus if _pending(g, sharing, mig_layout, slices)),
        driver_slices={
            _slice_id(uuid, start): DriverSlice(one.gi, one.ci, one.uuid)
            for uuid, standing in slices.items()
            for start, one in standing.items()
        },
        scalars={"vcpu": found.cpu.threads or 0, "memoryMiB": found.memory.total_mib or 0},
    )


def _of_gpu(
    found: inventory.NodeInventory,
    card: inventory.Gpu,
    sharing: Sharing,
    replicas: int,
    layout: Sequence[mig.Piece],
    slices: dict[str, dict[int, inventory.MigInstance]],
) -> Iterator[Device]:
    whole = _whole_gpu(found, card)
    usable = card.mig_mode != "enabled"
    match sharing:
        case "exclusive":
            yield replace(whole, bookable=usable)
        case "mig":
            yield whole
            yield from (_slice(whole, piece, slices[card.uuid].get(piece.start)) for piece in layout)
        case "timeslice" | "mps":
            yield whole
            for k in range(replicas):
                yield replace(whole, id=f"{card.uuid}/s{k}", class_="gpu.slot", bookable=usable, parent=card.uuid)


def _whole_gpu(found: inventory.NodeInventory, card: inventory.Gpu) -> Device:
    model = gpu.lookup(card.name, card.memory_mib)
    link = next((n for n in found.topology.nvlinks if n.gpu_uuid == card.uuid), None)
    return Device(
        id=card.uuid,
        class_="gpu",
        bookable=False,
        attributes=_known(
            productName=card.name or None,
            architecture=card.architecture,
            pciBusId=card.pci_bus_id,
            memory=_mebibytes(card.memory_mib),
            numaNode=card.numa_node,
            nvlinks=link.links if link else None,
            driverVersion=_version(found.software.nvidia_driver),
            cudaVersion=_version(found.software.cuda),
        ),
        gpu_product=model.product,
        gpu_model=model.model,
        memory_gb=model.memory_gb,
        numa_node=card.numa_node,
        nvlink_group=link.group if link else None,
        cdi=_CDI + card.uuid,
    )


def _slice(whole: Device, piece: mig.Piece, standing: inventory.MigInstance | None) -> Device:
    """A slice is an atom once it stands where the layout puts it (domain.md §4, "Slices")."""
    profile = mig.profile(whole.gpu_model or gpu.OTHER, whole.memory_gb, piece.profile)
    return replace(
        whole,
        id=_slice_id(whole.id, piece.start),
        class_="gpu.mig",
        bookable=standing is not None,
        parent=whole.id,
        memory_gb=profile.memory_gb if profile else None,
        attributes=whole.attributes
        | _known(
            memory=_mebibytes(standing.memory_mib if standing else None),
            parentUuid=whole.id,
            profile=piece.profile,
            start=piece.start,
        ),
        cdi=_CDI + standing.uuid if standing and standing.uuid else None,
    )


def _slice_id(gpu_uuid: str, start: int) -> str:
    return f"{gpu_uuid}/gi{start}/ci0"


def _standing(card: inventory.Gpu, layout: Sequence[mig.Piece]) -> dict[int, inventory.MigInstance]:
    """Which reported instance stands in which place of the layout.

    Where the driver told no start, instances of one profile take its places in the order of their numbers.
    """
    if card.mig_mode == "disabled":
        return {}
    model = gpu.lookup(card.name, card.memory_mib)
    shared = Counter(one.gi for one in card.mig_instances if one.gi is not None)
    free = [(one, _profile_of(one, model)) for one in card.mig_instances if one.gi is None or shared[one.gi] == 1]
    placed: dict[int, inventory.MigInstance] = {}
    for by_start in (True, False):
        for piece in sorted(layout, key=lambda p: p.start):
            wanted = piece.start if by_start else None
            fits = [one for one in free if one[1] == piece.profile and one[0].start == wanted]
            if fits and piece.start not in placed:
                placed[piece.start] = fits[0][0]
                free.remove(fits[0])
    return placed


def _profile_of(one: inventory.MigInstance, model: gpu.Model) -> str | None:
    return mig.match(
        model.model,
        model.memory_gb,
        name=one.profile,
        memory_mib=one.memory_mib,
        multiprocessors=one.multiprocessors,
    )


def _pending(
    card: inventory.Gpu,
    sharing: Sharing,
    layout: Sequence[mig.Piece],
    slices: dict[str, dict[int, inventory.MigInstance]],
) -> bool:
    if sharing != "mig":
        return card.mig_mode == "enabled"
    return not len(slices[card.uuid]) == len(layout) == len(card.mig_instances)


def _vfs(nics: Iterable[inventory.Nic]) -> Iterator[Device]:
    for nic in nics:
        for vf in nic.vfs:
            yield Device(
                id=f"{nic.mac}/vf{vf.index}",
                class_="nic.vf",
                bookable=not nic.bmc_link,
                parent=nic.mac,
                numa_node=nic.numa_node,
                attributes=_known(driver=nic.driver, model=nic.model, pciBusId=vf.pci_bus_id, numaNode=nic.numa_node),
            )


def _disks(disks: Sequence[inventory.Disk]) -> Iterator[Device]:
    """A disk that the host runs from, a stick or an empty slot is never an atom, whatever its identity."""
    identities = [_disk_identity(disk) for disk in disks]
    shared = Counter(identities)
    for index, (disk, identity) in enumerate(zip(disks, identities, strict=True)):
        known = identity is not None and shared[identity] == 1
        fixed = not (disk.system or disk.removable or disk.transport == "usb") and disk.size_bytes > 0
        yield Device(
            id=identity if known and identity else f"disk:{disk.name or index}",
            class_="disk",
            bookable=known and fixed,
            numa_node=disk.numa_node,
            attributes=_known(
                model=disk.model,
                vendor=disk.vendor,
                transport=disk.transport,
                rotational=disk.rotational,
                size=Quantity(str(disk.size_bytes)),
                numaNode=disk.numa_node,
            ),
        )


def _disk_identity(disk: inventory.Disk) -> str | None:
    """WWN, else serial; never the name, which is dealt by the order of discovery (O32)."""
    if disk.wwn and not is_placeholder(disk.wwn.removeprefix("eui.")):
        return disk.wwn
    if disk.serial and not is_placeholder(disk.serial):
        return disk.serial.strip().upper()
    return None


def _node(found: inventory.NodeInventory, node_id: str, *, bookable: bool) -> Device:
    models = {gpu.lookup(card.name, card.memory_mib) for card in found.gpus}
    model = models.pop() if len(models) == 1 else None
    return Device(
        id=node_id,
        class_="node",
        bookable=bookable,
        gpu_product=model.product if model else None,
        gpu_model=model.model if model else None,
        memory_gb=model.memory_gb if model else None,
        attributes=_known(
            gpuCount=len(found.gpus),
            vcpu=found.cpu.threads,
            memory=_mebibytes(found.memory.total_mib),
            architecture=found.cpu.architecture,
            cpuModel=found.cpu.model,
            manufacturer=found.system.manufacturer,
            productName=found.system.product_name,
        ),
    )


def _known(**attributes: Any) -> dict[str, Attribute]:
    """An unknown value is absent, never null (domain.md §10)."""
    return {name: value for name, value in attributes.items() if value is not None}


def _mebibytes(amount: int | None) -> Quantity | None:
    return Quantity(f"{amount}Mi") if amount else None


def _version(text: str | None) -> Version | None:
    return Version(text[:64]) if text else None
