"""Filters put together, as short as is easily found: what always or never holds falls away."""

from collections.abc import Callable, Iterable

from domain.policy import filters
from domain.policy.filters import Filter, Scalar


def all_of(parts: Iterable[Filter]) -> Filter:
    """Holds where all hold; where there are none, always."""
    known: dict[str, Filter] = {}
    for part in parts:
        for one in part.filters if isinstance(part, filters.And) else (part,):
            if isinstance(one, filters.Never):
                return one
            if not isinstance(one, filters.Always):
                known[_key(one)] = one
    if _opposed(known):
        return filters.Never()
    left = _merged(_absorbed(known, filters.Or), _common)
    if any(isinstance(part, filters.Never) for part in left):
        return filters.Never()
    return left[0] if len(left) == 1 else filters.And(tuple(left)) if left else filters.Always()


def any_of(parts: Iterable[Filter]) -> Filter:
    """Holds where one holds; where there are none, never."""
    known: dict[str, Filter] = {}
    for part in parts:
        for one in part.filters if isinstance(part, filters.Or) else (part,):
            if isinstance(one, filters.Always):
                return one
            if not isinstance(one, filters.Never):
                known[_key(one)] = one
    if _opposed(known):
        return filters.Always()
    left = _merged(_absorbed(known, filters.And), _either)
    return left[0] if len(left) == 1 else filters.Or(tuple(left)) if left else filters.Never()


def negation(part: Filter) -> Filter:
    match part:
        case filters.Always():
            return filters.Never()
        case filters.Never():
            return filters.Always()
        case filters.Not(one):
            return one
        case _:
            return filters.Not(part)


def _key(part: object) -> str:
    """Tells filters and values apart: to Python, true is 1 and so is 1.0."""
    return repr(part)


def _opposed(known: dict[str, Filter]) -> bool:
    return any(isinstance(part, filters.Not) and _key(part.filter) in known for part in known.values())


def _absorbed(known: dict[str, Filter], kind: type[filters.And] | type[filters.Or]) -> list[Filter]:
    """`a or (a and b)` is `a`, and `a and (a or b)` is too."""
    return [
        part
        for part in known.values()
        if not isinstance(part, filters.And | filters.Or)
        or not isinstance(part, kind)
        or not any(_key(within) in known for within in part.filters)
    ]


def _merged(parts: list[Filter], merge: Callable[[filters.Equals, filters.Equals], Filter]) -> list[Filter]:
    """Equalities of one field become one."""
    rest: list[Filter] = []
    equal: dict[str, Filter] = {}
    for part in parts:
        before = equal.get(part.field) if isinstance(part, filters.Equals) and not part.ignore_case else None
        if not isinstance(part, filters.Equals) or part.ignore_case or isinstance(before, filters.Never):
            rest.append(part)
        elif isinstance(before, filters.Equals):
            equal[part.field] = merge(before, part)
        else:
            equal[part.field] = part
    return [*equal.values(), *rest]


def _either(one: filters.Equals, other: filters.Equals) -> Filter:
    values: dict[str, Scalar] = {_key(value): value for value in (*one.values, *other.values)}
    return filters.Equals(one.field, tuple(values.values()))


def _common(one: filters.Equals, other: filters.Equals) -> Filter:
    also = {_key(value) for value in other.values}
    values = tuple(value for value in one.values if _key(value) in also)
    return filters.Equals(one.field, values) if values else filters.Never()
