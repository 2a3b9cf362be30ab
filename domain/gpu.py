"""What a GPU is called: the exact NVML product string to product and family (domain.md §4, "GPU names").

The table is data with a version, because a name decided under one table stays decided: an event that
carries `TABLE_VERSION` can be read again years later. Prefixes are never matched: `NVIDIA H100 PCIe` and a
vGPU guest's `NVIDIA H100-7-80C` share one, and only the first is a GPU that can be sold as such.
"""

import re
from pathlib import Path
from typing import Final

from msgspec import Struct, json

OTHER: Final = "other"
_MIG_SUFFIX = re.compile(r" MIG (?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z.]+)*\Z")


class Model(Struct, frozen=True):
    """`product` is the normalized name, `model` the family; memory is nominal, in GB, where it is known."""

    product: str
    model: str
    memory_gb: int | None = None


class _Row(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    names: tuple[str, ...]
    product: str
    model: str
    memory_gb: int | None = None
    pci_ids: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    other: tuple[str, ...]
    gpus: tuple[_Row, ...]


_TABLE = json.decode(Path(__file__).with_name("gpu-models.json").read_bytes(), type=_Table)
_BY_NAME: Final = {name: Model(row.product, row.model, row.memory_gb) for row in _TABLE.gpus for name in row.names}
_FAMILY_OF_PRODUCT: Final = {row.product: row.model for row in _TABLE.gpus}
_FAMILIES: Final = frozenset(row.model for row in _TABLE.gpus)
TABLE_VERSION: Final = _TABLE.version


def lookup(name: str, memory_mib: int | None = None) -> Model:
    """Finds a GPU by the name its driver prints; one that is not in the table is of model `other`.

    `memory_mib` is what the driver measured. It completes the few names that are sold in several sizes
    (`NVIDIA H100`); the table's nominal size always wins over it.
    """
    found = _BY_NAME.get(_MIG_SUFFIX.sub("", name.strip()))
    if found is None:
        return Model(name.strip() or OTHER, OTHER, _nominal(memory_mib))
    if found.memory_gb is not None or memory_mib is None:
        return found
    size = _nominal(memory_mib)
    return Model(f"{found.product}-{size}GB", found.model, size)


def names() -> frozenset[str]:
    """Every string the table speaks about: product names, older aliases, and those known to say nothing."""
    return frozenset(_BY_NAME) | frozenset(_TABLE.other)


def family(name: str) -> str:
    """The family of a `gpuModel`, a `gpuProduct` or an NVML name; `other` for anything else."""
    return name if name in families() else _FAMILY_OF_PRODUCT.get(name) or lookup(name).model


def families() -> frozenset[str]:
    """Every value that `gpuModel` can take, except `other`."""
    return _FAMILIES


def _nominal(memory_mib: int | None) -> int | None:
    """Drivers report a little less than the nominal size (81559 MiB of 80 GB), so the next full GiB is it."""
    return -(-memory_mib // 1024) if memory_mib else None
