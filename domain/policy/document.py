"""Policy documents: the grammar, and the compiled form that decisions run on (iam.md §1).

Documents are refused, never repaired: a document that means something else than it says is worse than none.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from domain import errors
from domain.policy import glob, operators, text
from domain.policy.meter import BUDGET, Exhausted, Meter

_STATEMENT_FIELDS = ("sid", "effect", "actions", "resources", "conditions")
_UNSAFE_KEYS = ("__proto__", "prototype", "constructor")
_ROUTES_KEPT = 1024


class InvalidPolicy(errors.Invalid):
    """A document outside the grammar; `field` is the path in it (`statements[0].actions[1]`)."""

    code: ClassVar[str] = "INVALID_POLICY"


class Statement(Struct, frozen=True):
    """One compiled statement; `label` is its sid, or its index where it has none."""

    label: str
    deny: bool
    actions: tuple[glob.Glob, ...]
    resources: tuple[glob.Glob, ...]
    conditions: tuple[operators.Condition, ...]


class Route(Struct, frozen=True):
    """The statements that an action reaches, each with the work of getting there, and the work left after."""

    steps: tuple[tuple[int, Statement], ...]
    rest: int


class Compiled:
    """A valid document, ready for decisions. Which statements an action reaches is worked out once."""

    __slots__ = ("_routes", "keys", "statements")

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        self.statements = statements
        self.keys = frozenset().union(*(_keys(statement) for statement in statements))
        """The context keys that the document reads: no other needs to be supplied."""
        self._routes: dict[str, Route] = {}

    def route(self, action: str) -> Route:
        """The statements that the action reaches; the memory of it is bounded."""
        route = self._routes.get(action)
        if route is None:
            if len(self._routes) >= _ROUTES_KEPT:
                self._routes.clear()
            route = self._routes[action] = _route(self.statements, action)
        return route


def _route(statements: tuple[Statement, ...], action: str) -> Route:
    """Spends at most one budget: an action that costs more is over the limit wherever it is decided."""
    steps: list[tuple[int, Statement]] = []
    meter = Meter()
    before = meter.left
    try:
        for statement in statements:
            if any(pattern.matches(action, {}, meter) for pattern in statement.actions):
                steps.append((before - meter.left, statement))
                before = meter.left
    except Exhausted:
        return Route(tuple(steps), BUDGET + 1)
    return Route(tuple(steps), before - meter.left)


def _keys(statement: Statement) -> set[str]:
    found: set[str] = set()
    for pattern in statement.resources:
        found |= glob.keys(pattern)
    for condition in statement.conditions:
        found |= operators.keys(condition)
    return found


def validate(document: object) -> Compiled:
    """Checks a parsed JSON or TOML document against the grammar; InvalidPolicy names the first mistake."""
    fields = _object(document, "document", ("version", "statements"))
    version = fields.get("version")
    if isinstance(version, bool) or not isinstance(version, int | float) or version != 1:
        raise InvalidPolicy("version", "must be the number 1")
    statements = _list(fields.get("statements"), "statements", 0, 128)
    compiled = tuple(_statement(entry, index) for index, entry in enumerate(statements))
    seen: set[str] = set()
    for index, entry in enumerate(statements):
        if "sid" in entry:
            if entry["sid"] in seen:
                raise InvalidPolicy(f"statements[{index}].sid", "must be unique in its document")
            seen.add(entry["sid"])
    return Compiled(compiled)


def _statement(entry: object, index: int) -> Statement:
    path = f"statements[{index}]"
    fields = _object(entry, path, _STATEMENT_FIELDS)
    label = _string(fields["sid"], f"{path}.sid", 128) if "sid" in fields else str(index)
    effect = fields.get("effect")
    if not isinstance(effect, str) or effect not in ("allow", "deny"):
        raise InvalidPolicy(f"{path}.effect", "must be allow or deny")
    return Statement(
        label=label,
        deny=effect == "deny",
        actions=_patterns(fields.get("actions"), f"{path}.actions", _action),
        resources=_patterns(fields.get("resources"), f"{path}.resources", _resource),
        conditions=_conditions(fields["conditions"], f"{path}.conditions") if "conditions" in fields else (),
    )


def _patterns(entries: object, path: str, parse: Callable[[str], glob.Glob]) -> tuple[glob.Glob, ...]:
    found: list[glob.Glob] = []
    for index, entry in enumerate(_list(entries, path, 1, 128)):
        at = f"{path}[{index}]"
        try:
            found.append(parse(_string(entry, at, 512)))
        except ValueError as error:
            raise InvalidPolicy(at, str(error)) from None
    return tuple(found)


def _action(pattern: str) -> glob.Glob:
    if "${" in pattern:
        raise ValueError("an action takes no variables")
    return glob.parse(pattern)


def _resource(pattern: str) -> glob.Glob:
    if "${" in pattern.partition("/")[0]:
        raise ValueError("a variable may stand only after the type, behind the first /")
    return glob.parse(pattern)


def _conditions(entry: object, path: str) -> tuple[operators.Condition, ...]:
    if not isinstance(entry, dict) or not entry:
        raise InvalidPolicy(path, "must be an object with at least one operator; leave it out for none")
    found: list[operators.Condition] = []
    for name, tests in entry.items():
        at = f"{path}.{name}"
        operator = operators.OPERATORS.get(name)
        if operator is None:
            raise InvalidPolicy(at, f"is no operator; the operators are {', '.join(operators.OPERATORS)}")
        if not isinstance(tests, dict) or not 1 <= len(tests) <= 64:
            raise InvalidPolicy(at, "must be an object of 1 to 64 context keys")
        for key, expected in tests.items():
            if key in _UNSAFE_KEYS:
                raise InvalidPolicy(f"{at}.{key}", "is not allowed as a context key")
            key = _string(key, f"{at} key", 128)
            prepared = _expected(expected, operator, f"{at}.{key}")
            found.append(operators.Condition(operator, key, prepared, presence=name == "Exists"))
    return tuple(found)


def _expected(entry: object, operator: operators.Operator, path: str) -> tuple[Any, ...]:
    entries = _list(entry, path, 1, 64) if isinstance(entry, list) else [entry]
    try:
        return tuple(operator.expected(value) for value in entries)
    except ValueError as error:
        raise InvalidPolicy(path, str(error)) from None


def _object(entry: object, path: str, allowed: Sequence[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise InvalidPolicy(path, f"must be an object of {', '.join(allowed)}")
    for key in entry:
        if key not in allowed:
            raise InvalidPolicy(f"{path}.{key}", f"is not known; allowed are {', '.join(allowed)}")
    return entry


def _list(entry: object, path: str, least: int, most: int) -> list[Any]:
    if not isinstance(entry, list) or not least <= len(entry) <= most:
        raise InvalidPolicy(path, f"must be a list of {least} to {most} entries")
    return entry


def _string(entry: object, path: str, most: int) -> str:
    """A string of 1 to `most` UTF-16 code units without control characters."""
    if not isinstance(entry, str) or not 1 <= text.utf16_length(entry) <= most or text.has_control(entry):
        raise InvalidPolicy(path, f"must be a string of 1 to {most} characters without control characters")
    return entry
