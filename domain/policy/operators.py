"""The 21 condition operators (iam.md §2): what each expects, reads and tests, and how a list combines."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from domain.policy import glob, instant, network, template, text
from domain.policy.meter import Meter
from domain.policy.template import Context

Array = list[Any] | tuple[Any, ...]
Member = template.Template | float | bool

MAX_STRING = 2048
"""UTF-16 code units of a string expected value."""


class Operator(Struct, frozen=True):
    """What one operator does.

    `expected` prepares a value of the document, or raises ValueError saying what would be right; `actual`
    reads the context's value, None for a wrong type; `test` compares the two. Positive lists are met by
    any value, `every` lists by all, `negated` ones where no value passes the test.
    """

    expected: Callable[[object], Any]
    actual: Callable[[object], Any]
    test: Callable[[Any, Any, Context, Meter], bool]
    negated: bool = False
    every: bool = False


class Condition(Struct, frozen=True):
    """One operator on one context key; `presence` is `Exists`, which reads no value."""

    operator: Operator
    key: str
    expected: tuple[Any, ...]
    presence: bool = False

    def holds(self, context: Context, meter: Meter) -> bool:
        """A missing key or another type is false, for negated operators too (iam.md §2)."""
        of, key = self.operator, self.key
        value = context.get(key)
        actual = key in context if self.presence else of.actual(value) if value is not None else None
        if actual is None:
            return False
        cost = 1 + _size(value, of) if isinstance(value, str | list | tuple) else 1
        negated, test = of.negated, of.test
        until = negated or of.every
        for expected in self.expected:
            meter.spend(cost)
            passes = test(expected, actual, context, meter) is not negated
            if passes is not until:
                return passes
        return until


def _size(value: str | Array, of: Operator) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else text.utf16_length(value)
    return len(value) if of.actual is _array else 0


def keys(condition: Condition) -> set[str]:
    """The context keys that the condition reads, through variables as well."""
    found = {condition.key}
    for expected in condition.expected:
        if isinstance(expected, glob.Simple | glob.Walked):
            found |= glob.keys(expected)
        elif isinstance(expected, tuple):
            found |= template.keys(expected)
    return found


def _plain(value: object) -> str:
    if not isinstance(value, str) or text.utf16_length(value) > MAX_STRING:
        raise ValueError(f"must be a string of at most {MAX_STRING} characters")
    template.parse(value)
    return value


def _string(value: object) -> template.Template:
    return template.parse(_plain(value)) or ("",)


def _folded(value: object) -> template.Template:
    parsed = _string(value)
    return (parsed[0].lower(),) if len(parsed) == 1 and isinstance(parsed[0], str) else parsed


def _pattern(value: object) -> glob.Glob:
    return glob.parse(_plain(value))


def _lower_pattern(value: object) -> glob.Glob:
    return glob.parse(_plain(value), lower=True)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _number(value: object) -> float:
    number = text.finite(value)
    if number is None:
        raise ValueError("must be a finite number")
    return number


def _timestamp(value: object) -> int:
    moment = instant.epoch_ms(value)
    if moment is None:
        raise ValueError("must be a timestamp such as 2026-01-31T12:00:00Z")
    return moment


def _network(value: object) -> network.Network:
    net = network.network(value)
    if net is None:
        raise ValueError("must be an IP address or a network such as 10.0.0.0/8")
    return net


def _member(value: object) -> Member:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _string(value)
    try:
        return _number(value)
    except ValueError:
        raise ValueError("must be a string, a finite number or a boolean") from None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _array(value: object) -> Array | None:
    return value if isinstance(value, list | tuple) else None


def _equals(expected: template.Template, actual: str, context: Context, meter: Meter) -> bool:
    return template.resolve(expected, context) == actual


def _equals_folded(expected: template.Template, actual: str, context: Context, meter: Meter) -> bool:
    resolved = template.resolve(expected, context)
    return resolved is not None and resolved.lower() == actual.lower()


def _like(expected: glob.Glob, actual: str, context: Context, meter: Meter) -> bool:
    return expected.matches(actual, context, meter)


def _like_folded(expected: glob.Glob, actual: str, context: Context, meter: Meter) -> bool:
    return expected.matches(actual.lower(), context, meter)


def _compares(relation: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Context, Meter], bool]:
    return lambda expected, actual, context, meter: relation(actual, expected)


def _inside(expected: network.Network, actual: network.Address, context: Context, meter: Meter) -> bool:
    return network.contains(expected, actual)


def _has(expected: Member, actual: Array, context: Context, meter: Meter) -> bool:
    """Membership by type and value: `1` is `1.0`, never `"1"` or `true`."""
    if isinstance(expected, bool):
        return any(item is expected for item in actual)
    if isinstance(expected, tuple):
        resolved = template.resolve(expected, context)
        return resolved is not None and any(isinstance(item, str) and item == resolved for item in actual)
    return any(text.double(item) == expected for item in actual)


def _numeric(relation: Callable[[Any, Any], bool], *, negated: bool = False) -> Operator:
    return Operator(_number, text.finite, _compares(relation), negated=negated)


OPERATORS: Mapping[str, Operator] = {
    "StringEquals": Operator(_string, _text, _equals),
    "StringNotEquals": Operator(_string, _text, _equals, negated=True),
    "StringEqualsIgnoreCase": Operator(_folded, _text, _equals_folded),
    "StringNotEqualsIgnoreCase": Operator(_folded, _text, _equals_folded, negated=True),
    "StringLike": Operator(_pattern, _text, _like),
    "StringNotLike": Operator(_pattern, _text, _like, negated=True),
    "StringLikeIgnoreCase": Operator(_lower_pattern, _text, _like_folded),
    "Bool": Operator(_boolean, _truth, _compares(operator.is_)),
    "NumericEquals": _numeric(operator.eq),
    "NumericNotEquals": _numeric(operator.eq, negated=True),
    "NumericLessThan": _numeric(operator.lt),
    "NumericLessThanEquals": _numeric(operator.le),
    "NumericGreaterThan": _numeric(operator.gt),
    "NumericGreaterThanEquals": _numeric(operator.ge),
    "DateBefore": Operator(_timestamp, instant.epoch_ms, _compares(operator.lt)),
    "DateAfter": Operator(_timestamp, instant.epoch_ms, _compares(operator.gt)),
    "IpAddress": Operator(_network, network.address, _inside),
    "NotIpAddress": Operator(_network, network.address, _inside, negated=True),
    "ArrayContains": Operator(_member, _array, _has),
    "ArrayContainsAll": Operator(_member, _array, _has, every=True),
    "Exists": Operator(_boolean, _truth, _compares(operator.is_)),
}
