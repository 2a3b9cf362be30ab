"""Filters decided on one row, exactly; and filters from elsewhere, checked before they are relied on (iam.md §19)."""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, assert_never

import msgspec

from domain import errors
from domain.policy import filters, instant, network, text
from domain.policy.filters import Filter
from domain.policy.glob import Walked
from domain.policy.meter import Exhausted, Meter

Row = Mapping[str, object]
"""A thing's fields: `id`, `parentType`, `parentId` and its attributes; what is missing is absent, null is there."""

MAX_DEPTH: Final = 64
"""How deep a filter may be nested."""

MAX_PARTS: Final = 16_384
"""Of how many parts a filter may be: a plan's work comes to fewer, and as SQL each may take three parameters."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class InvalidFilter(errors.Invalid):
    """A filter outside the grammar: it must not be guessed at, for it says what may be seen."""

    code: ClassVar[str] = "INVALID_FILTER"

    def __init__(self, message: str) -> None:
        super().__init__("filter", message)


def parse(document: object) -> Filter:
    """Reads a filter as JSON gave it; InvalidFilter for a kind, a field or a value that is not known."""
    try:
        parsed: Filter = msgspec.convert(document, Filter)
    except msgspec.ValidationError as mistake:
        raise InvalidFilter(str(mistake)) from None
    except RecursionError:
        raise InvalidFilter(f"is nested deeper than {MAX_DEPTH}") from None
    for number, (depth, part) in enumerate(_parts(parsed), 1):
        if number > MAX_PARTS:
            raise InvalidFilter(f"has more than {MAX_PARTS} parts")
        if depth > MAX_DEPTH:
            raise InvalidFilter(f"is nested deeper than {MAX_DEPTH}")
        _check(part)
    return parsed


def matches(filter: Filter, row: Row) -> bool:
    """Whether the row passes; one that would take more work than a decision may does not."""
    try:
        return _passes(filter, row, Meter())
    except Exhausted:
        return False


def _parts(filter: Filter) -> Iterator[tuple[int, Filter]]:
    waiting = [(1, filter)]
    while waiting:
        depth, part = waiting.pop()
        yield depth, part
        match part:
            case filters.And(within) | filters.Or(within):
                waiting += [(depth + 1, one) for one in within]
            case filters.Not(one):
                waiting.append((depth + 1, one))
            case _:
                pass


def _check(part: Filter) -> None:
    """What the types of the fields do not say."""
    match part:
        case filters.Equals(values=values):
            numbers: list[object] = [value for value in values if isinstance(value, float)]
        case filters.Compare(value=number) | filters.Contains(value=float() as number):
            numbers = [number]
        case filters.Date(value=written) if instant.epoch_ms(written) is None:
            raise InvalidFilter(f"{written!r} is no timestamp such as 2026-01-31T12:00:00Z")
        case filters.Ip(network=written) if network.network(written) is None:
            raise InvalidFilter(f"{written!r} is no IP address or network such as 10.0.0.0/8")
        case _:
            numbers = []
    if any(text.finite(number) is None for number in numbers):
        raise InvalidFilter("has a number beyond the range of doubles")


def _passes(filter: Filter, row: Row, meter: Meter) -> bool:
    meter.spend(1)
    match filter:
        case filters.Always():
            return True
        case filters.Never():
            return False
        case filters.And(within):
            return all(_passes(one, row, meter) for one in within)
        case filters.Or(within):
            return any(_passes(one, row, meter) for one in within)
        case filters.Not(one):
            return not _passes(one, row, meter)
        case filters.Exists(field):
            return field in row
        case _:
            return _holds(filter, row.get(filter.field), meter)


_Atom = filters.Type | filters.Equals | filters.Compare | filters.Like | filters.Date | filters.Ip | filters.Contains


def _holds(atom: _Atom, value: Any, meter: Meter) -> bool:
    """A test of a field's value; None, be it null or missing, passes none."""
    match atom:
        case filters.Type(type=type_):
            return _is(type_, value)
        case filters.Equals(values=values, ignore_case=ignore_case):
            meter.spend(len(values))
            return any(_same(expected, value, ignore_case) for expected in values)
        case filters.Compare(operator=name, value=expected):
            number = text.finite(value)
            return number is not None and _COMPARED[name](number, expected)
        case filters.Like(pattern=pattern, ignore_case=ignore_case):
            if not isinstance(value, str):
                return False
            tokens = tuple(filters.tokens(pattern.lower() if ignore_case else pattern))
            return Walked(tokens, lower=False).matches(value.lower() if ignore_case else value, {}, meter)
        case filters.Date(operator=side, value=written):
            moment, expected_moment = instant.epoch_ms(value), instant.epoch_ms(written)
            if moment is None or expected_moment is None:
                return False
            return moment < expected_moment if side == "before" else moment > expected_moment
        case filters.Ip(network=written):
            who, net = network.address(value), network.network(written)
            return who is not None and net is not None and network.contains(net, who)
        case filters.Contains(value=expected):
            if not isinstance(value, list | tuple):
                return False
            meter.spend(len(value))
            return any(_same(expected, item, ignore_case=False) for item in value)
        case _:
            assert_never(atom)


def _is(type_: str, value: object) -> bool:
    match type_:
        case "string":
            return isinstance(value, str)
        case "number":
            return text.finite(value) is not None
        case "boolean":
            return isinstance(value, bool)
        case _:
            return network.address(value) is not None


def _same(expected: filters.Scalar, value: object, ignore_case: bool) -> bool:
    """By type and value: `1` is `1.0`, never `"1"` or `true`."""
    if isinstance(expected, bool):
        return value is expected
    if isinstance(expected, str):
        if not isinstance(value, str):
            return False
        return expected.lower() == value.lower() if ignore_case else expected == value
    return text.double(value) == expected
