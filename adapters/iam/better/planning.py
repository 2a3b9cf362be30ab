"""What a list may show, as `filters/plan` answers it, decoded strictly (iam.md §19)."""

from typing import Final

import msgspec
from msgspec import Struct

from adapters.iam.better.answers import Unknown
from domain.access import Plan
from domain.policy import filters

MAX_DEPTH: Final = 64


class Planned(Struct, frozen=True, rename="camel"):
    """A plan repeats what it was asked, so that it can be no other question's."""

    tenant_id: str
    action: str
    type: str
    kind: str
    filter: msgspec.Raw = msgspec.Raw(b"null")


def plan_of(planned: Planned, asked: tuple[str, str, str]) -> Plan:
    """The plan; of a form that is not agreed it is none."""
    if (planned.tenant_id, planned.action, planned.type) != asked:
        raise Unknown("its plan is one for another question")
    match planned.kind:
        case "always":
            return Plan("always")
        case "never":
            return Plan("never")
        case "conditional":
            return Plan("conditional", filter_of(planned.filter))
        case _:
            raise Unknown("its plan is of an unknown kind")


def filter_of(raw: msgspec.Raw) -> filters.Filter:
    """A filter without any member that would go unread: what is passed over could be what restricts it."""
    try:
        whole = msgspec.json.decode(raw)
        found: filters.Filter = msgspec.convert(whole, filters.Filter, strict=True)
        if _depth(whole) > MAX_DEPTH or not _read_wholly(whole, found):
            raise Unknown("its plan has a filter of another form than was agreed")
    except (msgspec.MsgspecError, RecursionError):
        raise Unknown("its plan has a filter of another form than was agreed") from None
    return found


def _depth(node: object) -> int:
    """How deep a filter goes; iterative, for a hostile one is very deep."""
    deepest, todo = 0, [(node, 1)]
    while todo:
        at, depth = todo.pop()
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH * 4:
            break
        if isinstance(at, dict):
            todo += [(value, depth + 1) for value in at.values()]
        elif isinstance(at, list):
            todo += [(value, depth) for value in at]
    return deepest


def _read_wholly(whole: object, found: filters.Filter) -> bool:
    """Every member of the JSON is a member of the filter that was read from it."""
    match whole, found:
        case {"filters": list(parts)}, filters.And() | filters.Or():
            nested = all(_read_wholly(part, one) for part, one in zip(parts, found.filters, strict=True))
        case {"filter": part}, filters.Not():
            nested = _read_wholly(part, found.filter)
        case _:
            nested = True
    return nested and isinstance(whole, dict) and set(whole) <= {"kind", *found.__struct_encode_fields__}
