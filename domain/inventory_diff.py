"""What changed between two inventories of a node (domain.md §4, "Inventory").

Items of a list are matched by what identifies the thing itself, never by their place or the kernel's name, so that
a card that was moved to another slot is one change and not two. As in the hashes, order and names say nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from domain import inventory
from domain.inventory import NodeInventory


class Change(Struct, frozen=True, rename="camel"):
    """One thing that differs; `path` is `gpus[GPU-…].vbios`. What was not there before, or is not now, is null."""

    section: str
    path: str
    before: Any
    after: Any


_IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "gpus": ("uuid",),
    "nics": ("mac",),
    "disks": ("wwn", "serial", "name"),
    "migInstances": ("uuid", "start", "gi"),
    "vfs": ("index",),
    "dimms": ("locator", "serial", "partNumber"),
    "numaNodes": ("id",),
    "nvlinks": ("gpuUuid",),
}
"""Of each list the fields that can identify an item: the first that it has is its identity."""

_ABSENT: Final = object()


def changes(before: NodeInventory | None, after: NodeInventory | None) -> tuple[Change, ...]:
    """All differences in the order of sections and paths; none means that the hashes are equal."""
    was, now = _sections(before), _sections(after)
    return tuple(
        Change(section, path, old, new)
        for section in inventory.SECTIONS
        for path, old, new in _differ(section, was.get(section, {}), now.get(section, {}))
    )


def sections(before: NodeInventory | None, after: NodeInventory | None) -> tuple[str, ...]:
    """The sections whose hashes differ."""
    was, now = (inventory.section_hashes(one) if one else {} for one in (before, after))
    return tuple(name for name in inventory.SECTIONS if was.get(name) != now.get(name))


def _sections(found: NodeInventory | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        name: _keyed(name, msgspec.to_builtins(inventory.comparable(getattr(found, name))))
        for name in inventory.SECTIONS
    }


def _keyed(name: str, value: Any) -> Any:
    """Lists as mappings from an item's identity; of two with the same identity the second has `#2`."""
    match value:
        case dict():
            return {key: _keyed(key, inner) for key, inner in value.items()}
        case list() | tuple():
            seen: dict[str, int] = {}
            keyed = {}
            for item in value:
                identity = next((str(item[key]) for key in _IDENTITY[name] if key in item), "")
                seen[identity] = seen.get(identity, 0) + 1
                key = identity if seen[identity] == 1 else f"{identity}#{seen[identity]}"
                keyed[f"[{key}]"] = _keyed("", item)
            return keyed
        case _:
            return value


def _differ(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            below = f"{path}{key}" if key.startswith("[") else f"{path}.{key}"
            yield from _differ(below, before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif before != after:
        yield path, _plain(before), _plain(after)


def _plain(value: Any) -> Any:
    """As it stands in the document: a mapping of items is a list again."""
    match value:
        case dict() if value and all(key.startswith("[") for key in value):
            return [_plain(item) for item in value.values()]
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case _:
            return None if value is _ABSENT else value
