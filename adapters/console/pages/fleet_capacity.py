"""Capacity as bars: what each pool and GPU model has, holds and has left."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

PARTS: Final = ("allocated", "reserved", "available", "unschedulable")


class Bar(Struct, frozen=True, kw_only=True):
    """One resource. `whole` is what its parts are of: what the pool has, or the limit of whoever does not own it."""

    pool_id: str | None
    name: str
    model: str
    resource: str
    owned: bool
    parts: Sequence[tuple[str, int]]
    whole: int
    allocated: int
    reserved: int
    available: int
    unschedulable: int
    in_use: int
    label: str


def bars(rows: Sequence[Mapping[str, Any]]) -> list[Bar]:
    return [_bar(row["poolId"], row["poolName"], row["gpuModel"], row["resource"], row) for row in rows]


def by_model(made: Sequence[Bar]) -> list[Bar]:
    """The devices of the pools that the caller owns, by model, where models are several and pools are more."""
    alike = _alike(made)
    if len(alike) < 2 or all(len(of) == 1 for of in alike.values()):
        return []
    return [_sum(_pools(of), model, resource, of) for (model, resource), of in sorted(alike.items())]


def in_all(made: Sequence[Bar]) -> list[Bar]:
    """What several pools of one model come to; of different things there is no sum."""
    alike = _alike(made)
    sums = [_sum(f"all {_pools(of)}", *kind, of) for kind, of in alike.items() if len(of) > 1]
    return sums if len(alike) == 1 else []


def _alike(made: Sequence[Bar]) -> dict[tuple[str, str], list[Bar]]:
    alike: dict[tuple[str, str], list[Bar]] = {}
    for bar in made:
        if bar.owned and is_device(bar):
            alike.setdefault((bar.model, bar.resource), []).append(bar)
    return alike


def _pools(of: Sequence[Bar]) -> str:
    return f"{len(of)} pool{'s' if len(of) > 1 else ''}"


def is_device(bar: Bar) -> bool:
    """Whether it is what pools are made for: GPUs or parts of them, or whole nodes."""
    return bar.resource == "node" or bar.resource.partition(".")[0] == "gpu"


def _sum(name: str, model: str, resource: str, of: Sequence[Bar]) -> Bar:
    added = {name: sum(getattr(bar, name) for bar in of) for name in (*PARTS, "in_use", "whole")}
    added |= {"total": added["whole"], "unschedulableAllocated": added["in_use"]}
    return _bar(None, name, model, resource, added)


def _bar(pool_id: str | None, name: str, model: str, resource: str, row: Mapping[str, Any]) -> Bar:
    owned = "total" in row
    parts = [(part, int(row.get(part, 0))) for part in PARTS]
    whole = max(row["total"] if owned else row["limit"], sum(amount for _, amount in parts))
    said = ", ".join(f"{amount:,} {part}" for part, amount in parts if owned or part != "unschedulable")
    return Bar(
        pool_id=pool_id,
        name=name,
        model=model,
        resource=resource,
        owned=owned,
        parts=parts,
        whole=whole,
        allocated=row["allocated"],
        reserved=row["reserved"],
        available=row["available"],
        unschedulable=row.get("unschedulable", 0),
        in_use=row.get("unschedulableAllocated", 0),
        label=f"{resource} of {name}: {said}, {'in all' if owned else 'limit'} {whole:,}",
    )
