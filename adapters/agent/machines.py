"""Machines that do not exist: NodeInventory documents as real ones of their kind send them.

The same model, index and seed give the same machine; another index or seed gives one that shares no identifier
with it. Every fingerprint is trusted, and every GPU or slice becomes bookable (domain.md §4).
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from domain import gpu, mig

Model = Literal["H100", "A100", "L4"]
SEVEN: Final = tuple(mig.Slice("1g.10gb", start) for start in range(7))
"""The layout of an A100 80 GB in seven equal slices."""

_GIB: Final = 1_024
_SOFTWARE: Final = {
    "os": "Ubuntu 24.04.2 LTS",
    "kernel": "6.8.0-60-generic",
    "nvidiaDriver": "570.148.08",
    "cuda": "12.8",
    "agent": "simulated",
}


class _Make(NamedTuple):
    """`links` are NVLinks a GPU, `vendor` the first half of its ports' MACs, `slots` where its GPUs sit."""

    gpu_name: str
    architecture: str
    device_id: str
    memory_mib: int
    gpus: int
    links: int
    slots: tuple[str, ...]
    maker: str
    product: str
    cpu: str
    cores: int
    memory_gib: int
    nic: str
    ports: int
    vendor: str
    disks: int


_MAKES: Final[dict[Model, _Make]] = {
    "H100": _Make(
        "NVIDIA H100 80GB HBM3", "Hopper", "0x233010DE", 81_559, 8, 18,
        ("1b", "43", "52", "61", "9d", "c3", "d1", "df"),
        "Supermicro", "SYS-821GE-TNHR", "Intel(R) Xeon(R) Platinum 8480+", 56, 2_048,
        "MT2910 Family [ConnectX-7]", 8, "b83fd2", 8,
    ),
    "A100": _Make(
        "NVIDIA A100-SXM4-80GB", "Ampere", "0x20B210DE", 81_920, 8, 12,
        ("07", "0f", "47", "4e", "87", "90", "b7", "bd"),
        "NVIDIA", "DGXA100 920-23687-2530-000", "AMD EPYC 7742 64-Core Processor", 64, 2_048,
        "MT28908 Family [ConnectX-6]", 8, "043f72", 4,
    ),
    "L4": _Make(
        "NVIDIA L4", "Ada Lovelace", "0x27B810DE", 23_034, 4, 0,
        ("17", "31", "b1", "ca"),
        "Dell Inc.", "PowerEdge R760", "Intel(R) Xeon(R) Gold 6438Y+", 32, 512,
        "Ethernet Controller E810-C for QSFP", 2, "b49691", 2,
    ),
}  # fmt: skip


def inventory_for(
    model: Model,
    gpus: int | None = None,
    index: int = 0,
    *,
    seed: str = "",
    hostname: str | None = None,
    mig_layout: Sequence[mig.Piece] | None = None,
) -> dict[str, Any]:
    """The document of the `index`-th machine (0 to 65535) of a model; GPUs default to what its make holds.

    An A100's GPUs are partitioned as SEVEN unless `mig_layout` says otherwise; an empty layout is no MIG.
    Raises mig.IllegalLayout for a layout that the model cannot hold.
    """
    make = _MAKES[model]
    count = make.gpus if gpus is None else gpus
    if not 0 <= count <= make.gpus:
        raise ValueError(f"this make of {model} node has 0 to {make.gpus} GPUs")
    layout = tuple((SEVEN if model == "A100" else ()) if mig_layout is None else mig_layout)
    if layout and not make.links:
        raise mig.IllegalLayout(f"{model} has no MIG", 0)
    digest = _digests(f"{seed}\n{model}\n{index}")
    cards = [_gpu(make, digest, n, count, layout) for n in range(count)]
    return {
        "schema": "NodeInventory/v1",
        "system": _system(make, digest, hostname or f"{model.lower()}-{index}"),
        "cpu": _cpu(make),
        "memory": _memory(make, digest),
        "gpus": cards,
        "nics": _nics(make, sha256(seed.encode()).digest(), index),
        "disks": _disks(make, digest),
        "topology": _topology(make, cards),
        "software": dict(_SOFTWARE),
        "clock": {"synchronized": True, "service": "chronyd", "timezone": "Etc/UTC"},
    }


Digest = Callable[[str], bytes]


def _digests(machine: str) -> Digest:
    return lambda part: sha256(f"{machine}\n{part}".encode()).digest()


def _uuid(digest: bytes) -> str:
    return str(UUID(bytes=digest[:16], version=4))


def _system(make: _Make, digest: Digest, hostname: str) -> dict[str, Any]:
    return {
        "productUuid": _uuid(digest("uuid")),
        "serialNumber": "S" + digest("serial").hex().upper()[:11],
        "manufacturer": make.maker,
        "productName": make.product,
        "hostname": hostname,
        "biosVersion": "2.4.1",
    }


def _gpu(make: _Make, digest: Digest, n: int, count: int, layout: Sequence[mig.Piece]) -> dict[str, Any]:
    card: dict[str, Any] = {
        "uuid": f"GPU-{_uuid(digest(f'gpu {n}'))}",
        "name": make.gpu_name,
        "architecture": make.architecture,
        "pciBusId": f"0000:{make.slots[n]}:00.0",
        "pciDeviceId": make.device_id,
        "serial": str(int.from_bytes(digest(f"gpu serial {n}")[:5], "big") + 1_000_000_000_000),
        "memoryMiB": make.memory_mib,
        "numaNode": 0 if n < count / 2 else 1,
        "vbios": "96.00.89.00.01",
    }
    if make.links:
        card |= _slices(card, layout)
    return card


def partitioned(document: dict[str, Any], layout: Sequence[mig.Piece]) -> dict[str, Any]:
    """The same machine with every GPU cut up so; raises mig.IllegalLayout where one cannot be."""
    return document | {"gpus": [card | _slices(card, layout) for card in document["gpus"]]}


def _slices(card: dict[str, Any], layout: Sequence[mig.Piece]) -> dict[str, Any]:
    """`gi` is dealt by the driver and says nothing of the place; `start` does."""
    known = gpu.lookup(card["name"], card["memoryMiB"])
    if layout:
        mig.check_layout(known.model, known.memory_gb, layout)
    pieces = sorted(layout, key=lambda piece: piece.start)
    return {
        "migMode": "enabled" if layout else "disabled",
        "migInstances": [_instance(card["uuid"], known, number, piece) for number, piece in enumerate(pieces, 7)],
    }


def _instance(gpu_uuid: str, known: gpu.Model, gi: int, piece: mig.Piece) -> dict[str, Any]:
    profile = mig.profile(known.model, known.memory_gb, piece.profile)
    assert profile is not None, "the layout was checked"
    digest = sha256(f"{gpu_uuid} {piece.profile} {piece.start}".encode()).digest()
    instance: dict[str, Any] = {
        "gi": gi,
        "ci": 0,
        "uuid": f"MIG-{_uuid(digest)}",
        "profile": piece.profile,
        "start": piece.start,
        "memoryMiB": profile.memory_gb * _GIB * 95 // 100,
    }
    if profile.multiprocessors is not None:
        instance["multiprocessors"] = profile.multiprocessors
    return instance


def _cpu(make: _Make) -> dict[str, Any]:
    vendor = "AuthenticAMD" if make.cpu.startswith("AMD") else "GenuineIntel"
    cores = 2 * make.cores
    return {
        "architecture": "x86_64",
        "vendor": vendor,
        "model": make.cpu,
        "sockets": 2,
        "cores": cores,
        "threads": 2 * cores,
    }


def _memory(make: _Make, digest: Digest) -> dict[str, Any]:
    modules = make.memory_gib // 64
    return {
        "totalMiB": make.memory_gib * _GIB * 985 // 1000,
        "dimms": [
            {
                "sizeMiB": 64 * _GIB,
                "locator": f"P{2 * n // modules + 1}-DIMM{chr(65 + n % (modules // 2))}1",
                "manufacturer": "Samsung",
                "partNumber": "M321R8GA0BB0-CQKZJ",
                "serial": digest(f"dimm {n}").hex().upper()[:8],
            }
            for n in range(modules)
        ],
    }


def _nics(make: _Make, seed: bytes, index: int) -> list[dict[str, Any]]:
    """The MAC's lower half is a running number, turned by the seed: within one seed none comes twice."""
    driver = "ice" if "E810" in make.nic else "mlx5_core"
    return [
        {
            "mac": make.vendor + f"{(index * 16 + n) % (1 << 24) ^ int.from_bytes(seed[:3], 'big'):06x}",
            "name": f"eth{n}",
            "driver": driver,
            "vendor": "Intel Corporation" if driver == "ice" else "Mellanox Technologies",
            "model": make.nic,
            "pciBusId": f"0000:{0x18 + 0x10 * n:02x}:00.0",
            "numaNode": 0 if n < make.ports / 2 else 1,
            "maxVfs": 16,
        }
        for n in range(make.ports)
    ]


def _disks(make: _Make, digest: Digest) -> list[dict[str, Any]]:
    """Two small ones for the host's own system, then the data disks."""
    return [
        {
            "name": f"nvme{n}n1",
            "wwn": f"eui.{digest(f'disk {n}').hex()[:16]}",
            "serial": "S6" + digest(f"disk serial {n}").hex().upper()[:12],
            "sizeBytes": 960_197_124_096 if n < 2 else 3_840_755_982_336,
            "vendor": "Samsung",
            "model": "SAMSUNG MZ1L2960HCJR-00A07" if n < 2 else "SAMSUNG MZQL23T8HCLS-00A07",
            "rotational": False,
            "transport": "nvme",
            "numaNode": n % 2,
            "system": n < 2,
        }
        for n in range(2 + make.disks)
    ]


def _topology(make: _Make, cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    threads = 2 * make.cores
    return {
        "numaNodes": [
            {
                "id": n,
                "cpus": f"{n * make.cores}-{(n + 1) * make.cores - 1},"
                f"{threads + n * make.cores}-{threads + (n + 1) * make.cores - 1}",
                "memoryMiB": make.memory_gib * _GIB // 2,
            }
            for n in range(2)
        ],
        "nvlinks": [{"gpuUuid": card["uuid"], "links": make.links, "group": 0} for card in cards if make.links],
    }
