"""What every parser here gives and takes.

A fragment is a part of a NodeInventory as plain JSON values; merge.py joins fragments and lets the domain
check the whole. A parser never invents: what a tool did not print, or printed as N/A, is left out.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Fragment = dict[str, Any]

MAX_BYTES: Final = 16 * 1_048_576
_NOTHING: Final = frozenset({"", "n/a", "[n/a]", "none", "not specified", "unknown error", "[not supported]"})
_TEXT_LIMIT: Final = 255

#: Drivers of the USB port that many machines have towards their own BMC.
BMC_DRIVERS: Final = frozenset({"cdc_ether", "cdc_eem", "cdc_ncm", "rndis_host"})


class InventoryError(Exception):
    """An input that is no inventory: which file, what is wrong with it, and what would be right."""

    def __init__(self, file: str, problem: str, remedy: str) -> None:
        line = " ".join(f"{file}: {problem}; {remedy}".split())
        super().__init__("".join(c if c.isprintable() else "?" for c in line))
        self.file = file
        self.problem = problem
        self.remedy = remedy


def known(**values: Any) -> Fragment:
    """The values that are there; names are given as in the document, in camelCase."""
    return {name: value for name, value in values.items() if value is not None and value != []}


def text(value: object, limit: int = _TEXT_LIMIT) -> str | None:
    """One printable line, cut to what the document takes; None for what tools print in place of nothing."""
    if not isinstance(value, str):
        return None
    line = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return None if line.lower() in _NOTHING else line[:limit]


def verbatim(value: object, limit: int = 128) -> str | None:
    """An identifier as it was printed, placeholders included: the fingerprint's blocklist judges it."""
    line = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(c for c in line if c.isprintable())[:limit] or None


def whole(value: object) -> int | None:
    """A count: an integer that is not negative, also as digits."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return value if value >= 0 else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip()) else None


def identifier(file: str, field: str, normal: Callable[[str], str], value: object) -> str:
    """An identifier in its normal form; one that cannot be means that the file is not what it should be."""
    try:
        return normal(str(value))
    except ValueError as wrong:
        raise InventoryError(file, f"{field}: {wrong}".partition(";")[0], "is the file complete?") from None


def optional(normal: Callable[[str], str], value: object) -> str | None:
    """An identifier in its normal form, or None when this is none: other identifiers remain."""
    if not isinstance(value, str):
        return None
    try:
        return normal(value)
    except ValueError:
        return None


def json_object(content: bytes, file: str, made_by: str) -> Any:
    """Decodes JSON; `made_by` is the command whose output was expected."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as broken:
        raise InventoryError(file, f"is not JSON ({broken})", f"give the output of `{made_by}`") from None


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The objects of a JSON list; anything else counts as an empty one."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def part(node: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object under that name; anything else counts as an empty one."""
    found = node.get(name)
    return found if isinstance(found, Mapping) else {}


def first_of_each(items: Iterable[Fragment], key: str) -> list[Fragment]:
    """The items with the first of several equal keys kept: one thing seen over two paths is one thing."""
    seen: dict[Any, Fragment] = {}
    for item in items:
        seen.setdefault(item.get(key, id(item)), item)
    return list(seen.values())
