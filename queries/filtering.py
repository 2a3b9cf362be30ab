"""Filters over the catalog, in SQL (iam.md §19).

A condition is true, false or, of what SQL cannot tell exactly, null: such a row is for `matching` to decide. SQL's
logic of three values carries a null through and, or and not. Nothing else is null: a field that is missing or of
another type passes no test, before any negation.
"""

from typing import Any, Final, LiteralString, assert_never

from msgspec import Struct

from domain import catalog
from domain.policy import filters, network
from domain.policy.filters import Filter
from domain.policy.glob import Wild

_OCTET: LiteralString = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4: LiteralString = _OCTET + r"(?:\." + _OCTET + "){3}"
_GROUP: LiteralString = "[0-9A-Fa-f]{1,4}"
_IS_IPV4: Final = f"^{_IPV4}$"
_TIMESTAMP: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_MAPPED_BITS: Final = 96
_OPERATORS: dict[str, LiteralString] = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TRUE: LiteralString = "true"
_FALSE: LiteralString = "false"


def _ipv6() -> str:
    """Eight groups, or fewer around one `::` that stands for at least one; the last two may be an IPv4 address."""
    forms = [f"(?:{_GROUP}:){{7}}{_GROUP}", f"(?:{_GROUP}:){{6}}{_IPV4}"]
    for head in range(8):
        before = f"{_GROUP}(?::{_GROUP}){{{head - 1}}}::" if head else "::"
        forms.append(before)
        if head <= 6:
            forms.append(f"{before}(?:{_GROUP}:){{0,{6 - head}}}{_GROUP}")
        if head <= 5:
            forms.append(f"{before}(?:{_GROUP}:){{0,{5 - head}}}{_IPV4}")
    return f"^(?:{'|'.join(forms)})$"


_IS_IPV6: Final = _ipv6()


class Condition(Struct, frozen=True):
    """An SQL expression on `catalog AS thing`, and its parameters by name; all of them begin with `_w`."""

    sql: LiteralString
    params: dict[str, Any]


ALWAYS: Final = Condition(_TRUE, {})
NEVER: Final = Condition(_FALSE, {})
UNTOLD: Final = Condition("NULL::boolean", {})


def compiled(filter: Filter) -> Condition:
    of = _Compiler()
    return Condition(of.condition(filter), of.params)


class _Compiler:
    """One condition on its way. Every value is bound, field names too."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}

    def condition(self, filter: Filter) -> LiteralString:
        match filter:
            case filters.Always():
                return _TRUE
            case filters.Never():
                return _FALSE
            case filters.And(within):
                return "(" + " AND ".join([self.condition(one) for one in within]) + ")" if within else _TRUE
            case filters.Or(within):
                return "(" + " OR ".join([self.condition(one) for one in within]) + ")" if within else _FALSE
            case filters.Not(one):
                return "(NOT " + self.condition(one) + ")"
            case filters.Exists(field):
                return "(" + self._value(field) + " IS NOT NULL)"
            case filters.Type(field, type_):
                return self._type(field, type_)
            case filters.Equals():
                return self._equals(filter)
            case filters.Compare(field, operator, value):
                return self._double(field, _OPERATORS[operator] + " " + self._bind(value) + "::float8")
            case filters.Like(field, pattern, ignore_case):
                return self._like(field, pattern, ignore_case)
            case filters.Date(field):
                return self._text(field, "CASE WHEN %s ~ " + self._bind(_TIMESTAMP) + " THEN NULL ELSE false END")
            case filters.Ip(field, written):
                return self._inside(field, written)
            case filters.Contains(field, value):
                return self._contains(field, value)
            case _:
                assert_never(filter)

    def _bind(self, value: object) -> LiteralString:
        name: LiteralString = "_w" + _digits(len(self.params))
        self.params[name] = value
        return "%(" + name + ")s"

    def _value(self, field: str) -> LiteralString:
        """The field as jsonb; SQL null where it is missing."""
        if field == "id":
            return "to_jsonb(thing.id)"
        if not _storable(field):
            return "NULL::jsonb"
        attribute: LiteralString = "thing.attributes -> " + self._bind(field) + "::text"
        if field == "parentId":
            return "coalesce(to_jsonb(thing.parent_id), " + attribute + ")"
        if field == "parentType":
            parent = self._bind(catalog.POOL)
            return "(CASE WHEN thing.parent_id IS NULL THEN " + attribute + " ELSE to_jsonb(" + parent + "::text) END)"
        return "(" + attribute + ")"

    def _text(self, field: str, test: LiteralString) -> LiteralString:
        """A test of a string, which stands at each `%s`."""
        if field == "id":
            return "(" + test.replace("%s", "thing.id") + ")"
        value = self._value(field)
        of: LiteralString = "(" + value + " #>> '{}')"
        return "CASE WHEN jsonb_typeof(" + value + ") = 'string' THEN " + test.replace("%s", of) + " ELSE false END"

    def _double(self, field: str, test: LiteralString) -> LiteralString:
        """A test of a number as a double; of one near the ends of their range SQL cannot tell."""
        value = self._value(field)
        number: LiteralString = value + "::numeric"
        near: LiteralString = "(" + number + " = 0 OR abs(" + number + ") BETWEEN 1e-300 AND 1e300)"
        tested: LiteralString = "CASE WHEN " + near + " THEN " + value + "::float8 " + test + " ELSE NULL END"
        return "CASE WHEN jsonb_typeof(" + value + ") = 'number' THEN " + tested + " ELSE false END"

    def _type(self, field: str, type: str) -> LiteralString:
        if type == "number":
            return self._double(field, "IS NOT NULL")
        if type == "ip":
            ipv4, ipv6 = self._bind(_IS_IPV4), self._bind(_IS_IPV6)
            return self._text(field, "(%s ~ " + ipv4 + " OR %s ~ " + ipv6 + ")")
        return "coalesce(jsonb_typeof(" + self._value(field) + ") = " + self._bind(type) + ", false)"

    def _equals(self, of: filters.Equals) -> LiteralString:
        found: list[LiteralString] = []
        texts = [value for value in of.values if isinstance(value, str) and _storable(value)]
        if texts and of.ignore_case:
            found.append(self._lowered(of.field, "= ANY(" + self._bind([text.lower() for text in texts]) + ")"))
        elif texts:
            found.append(self._text(of.field, "%s = ANY(" + self._bind(texts) + ")"))
        truths = [value for value in of.values if isinstance(value, bool)]
        if truths:
            wanted = self._bind(["true" if value else "false" for value in truths])
            found.append("coalesce(" + self._value(of.field) + " = ANY(" + wanted + "::text[]::jsonb[]), false)")
        numbers = [value for value in of.values if isinstance(value, float)]
        if numbers:
            found.append(self._double(of.field, "= ANY(" + self._bind(numbers) + "::float8[])"))
        return "(" + " OR ".join(found) + ")" if found else _FALSE

    def _like(self, field: str, pattern: str, ignore_case: bool) -> LiteralString:
        tokens = filters.tokens(pattern.lower() if ignore_case else pattern)
        written = "".join(_as_like(token) for token in tokens)
        if not _storable(written):
            return _FALSE
        if ignore_case:
            return self._lowered(field, "LIKE " + self._bind(written))
        return self._text(field, '%s COLLATE "C" LIKE ' + self._bind(written))

    def _lowered(self, field: str, test: LiteralString) -> LiteralString:
        """A test of a string in lower case, which SQL has of ASCII alone as Unicode has it."""
        lowered: LiteralString = 'lower(%s COLLATE "C") ' + test
        return self._text(field, "CASE WHEN octet_length(%s) = length(%s) THEN " + lowered + " ELSE NULL END")

    def _inside(self, field: str, written: str) -> LiteralString:
        """Families meet in IPv4-mapped IPv6 alone (iam.md §2, "IP")."""
        net = network.network(written)
        if net is None:
            return _FALSE
        ipv4, ipv6 = _FALSE, "%s::inet <<= " + self._bind(written) + "::inet"
        if net.address.bits == 32:
            ipv4 = ipv6
            low: LiteralString = "'0.0.0.0'::inet + (%s::inet - '::ffff:0:0'::inet) <<= "
            ipv6 = (
                "CASE WHEN %s::inet <<= '::ffff:0:0/96'::inet THEN " + low + self._bind(written) + "::inet "
                "ELSE false END"
            )
        elif net.prefix >= _MAPPED_BITS and net.address.number >> 32 == 0xFFFF:
            below = network.Network(network.Address(32, net.address.number & 0xFFFF_FFFF), net.prefix - _MAPPED_BITS)
            ipv4 = "%s::inet <<= " + self._bind(network.written(below)) + "::inet"
        tests: LiteralString = "WHEN %s ~ " + self._bind(_IS_IPV4) + " THEN " + ipv4
        tests += " WHEN %s ~ " + self._bind(_IS_IPV6) + " THEN " + ipv6
        return self._text(field, "CASE " + tests + " ELSE false END")

    def _contains(self, field: str, expected: filters.Scalar) -> LiteralString:
        """Of numbers SQL can tell those that are written alike, and arrays without any."""
        value = self._value(field)
        if isinstance(expected, str) and not _storable(expected):
            return _FALSE
        kind = "boolean" if isinstance(expected, bool) else "number" if isinstance(expected, float) else "string"
        if kind == "number":
            has: LiteralString = "jsonb_build_array(" + self._bind(expected) + "::float8)"
            others: LiteralString = "jsonb_path_exists(" + value + ", '$[*] ? (@.type() == \"number\")')"
            test = value + " @> " + has + " OR CASE WHEN " + others + " THEN NULL ELSE false END"
        else:
            of: LiteralString = "boolean" if kind == "boolean" else "text"
            test = value + " @> jsonb_build_array(" + self._bind(expected) + "::" + of + ")"
        return "CASE WHEN jsonb_typeof(" + value + ") = 'array' THEN " + test + " ELSE false END"


def _digits(number: int) -> LiteralString:
    digits: list[LiteralString] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    return (_digits(number // 10) if number > 9 else "") + digits[number % 10]


def _storable(text: str) -> bool:
    """Whether PostgreSQL could hold the text at all: what it cannot, equals nothing that it holds."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _as_like(token: str | Wild) -> str:
    match token:
        case Wild.RUN:
            return "%"
        case Wild.ONE:
            return "_"
        case _:
            return f"\\{token}" if token in "%_\\" else token
