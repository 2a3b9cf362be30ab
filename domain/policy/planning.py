"""What a principal may do an action on, as a filter over the things of one type (iam.md §19).

Policies are evaluated as far as they can be without the thing: the action, the principal and the request are known
now, the rest becomes conditions on the thing's fields. `matching` on a row then says what `evaluate` would, apart from
the work budget.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from domain.policy import document, filters, glob, instant, network, operators, template
from domain.policy.algebra import all_of, any_of, negation
from domain.policy.filters import Filter
from domain.policy.glob import Wild
from domain.policy.meter import Exhausted, Meter
from domain.policy.template import Context

BUDGET: Final = 200_000
"""Units of work that a plan may take, about one a character; more is unsupported."""

_ROW: Final = "resource."
_TENANT: Final = "resource.tenantId"
_RELATIONS: Final = "resource.relations"
_PARENT_RELATIONS: Final = "resource.parentRelations"
_ALWAYS: Final = filters.Always()
_NEVER: Final = filters.Never()

Relations = Mapping[str, Sequence[str]]
"""Of things by id, the sorted names of the principal's relations to them; none are left out."""


class Unsupported(Exception):
    """No filter says what the policies say, or it would be too large: decide on each thing."""


class Known(Struct, frozen=True):
    """What is known before the thing is: the context without its attributes, and who is related to what.

    `context` has `resource.tenantId`, which is the session's; `parents` are relations by the type of the parent.
    """

    context: Context
    relations: Relations = {}
    parents: Mapping[str, Relations] = {}


def plan(
    action: str,
    type: str,
    grants: Sequence[document.Compiled],
    boundaries: Sequence[document.Compiled],
    known: Known,
) -> Filter:
    """The things of `type` that the action is allowed on; Unsupported where that is not to be had (iam.md §4)."""
    planner = _Planner(action, f"{type}/", known)
    try:
        allows = [planner.statements(one) for one in grants]
        granted = any_of(allow for allow, _ in allows)
        if granted == _NEVER:
            return granted
        ceilings = [planner.statements(one) for one in boundaries]
        denied = any_of(deny for _, deny in (*allows, *ceilings))
        return all_of([granted, *(allow for allow, _ in ceilings), negation(denied)])
    except Exhausted:
        raise Unsupported(f"the policies of {action} would take more than {BUDGET} units of work") from None


class _Planner:
    """One plan on its way. `reaching` is the work of finding statements, which every decision spends alike."""

    def __init__(self, action: str, prefix: str, known: Known) -> None:
        self.action = action
        self.prefix = prefix
        self.known = known
        self.reaching = Meter()
        self.meter = Meter(BUDGET)

    def statements(self, within: document.Compiled) -> tuple[Filter, Filter]:
        """Where a statement of the document allows, and where one denies."""
        route = within.route(self.action)
        self.reaching.spend(sum(work for work, _ in route.steps) + route.rest)
        allows = any_of(self._statement(one) for _, one in route.steps if not one.deny)
        return allows, any_of(self._statement(one) for _, one in route.steps if one.deny)

    def _statement(self, of: document.Statement) -> Filter:
        """What is cheap to know comes first, so that a statement which cannot apply is not looked into."""
        parts: list[Filter] = []
        for part in self._parts(of):
            self.meter.spend(1)
            if part == _NEVER:
                return part
            parts.append(part)
        return all_of(parts)

    def _parts(self, of: document.Statement) -> Iterator[Filter]:
        yield from (self._now(one) for one in of.conditions if not _is_of_row(one.key))
        yield any_of(self._resource(pattern) for pattern in of.resources)
        yield from (self._condition(one) for one in of.conditions if _is_of_row(one.key))

    def _now(self, condition: operators.Condition) -> Filter:
        """A condition on what is known; what it compares with may still be the thing's."""
        context = self.known.context
        reads = condition.presence or condition.operator.actual(context.get(condition.key)) is not None
        if reads and any(_is_of_row(key) for key in operators.keys(condition) - {condition.key}):
            raise Unsupported(f"{condition.key} is compared with an attribute of the thing")
        return _ALWAYS if condition.holds(context, self.meter) else _NEVER

    def _resource(self, pattern: glob.Glob) -> Filter:
        tokens = self._tokens(pattern)
        if tokens is None:
            return _NEVER
        return any_of(_ALWAYS if _is_any(rest) else _like("id", rest) for rest in self._behind(tokens))

    def _behind(self, tokens: list[str | Wild]) -> Iterator[list[str | Wild]]:
        """What is left of a pattern once it has taken the type: more than one rest, where a star took part."""
        at = _closed(tokens, {0})
        for char in self.prefix:
            self.meter.spend(1 + len(at))
            at = _closed(tokens, {next for state in at for next in _after(tokens, state, char)})
        star = max((state for state in at if state < len(tokens) and tokens[state] is Wild.RUN), default=None)
        for state in sorted(at):
            if star is None or state == star or state > star + 1:
                self.meter.spend(len(tokens) - state)
                yield tokens[state:]

    def _condition(self, condition: operators.Condition) -> Filter:
        """A condition on the thing; a list of expected values combines as `operators.Condition` says."""
        if condition.key in (_RELATIONS, _PARENT_RELATIONS):
            return self._related(condition)
        field = condition.key.removeprefix(_ROW)
        if field == "id":
            raise Unsupported("resource.id is never set; a resource pattern names ids")
        if condition.presence:
            there = filters.Exists(field)
            return any_of(there if wanted else negation(there) for wanted in condition.expected)
        atom = _ATOMS[condition.operator]
        tests = (atom(self, field, expected) for expected in condition.expected)
        if condition.operator.every:
            return all_of(tests)
        if condition.operator.negated:
            return all_of([filters.Type(field, _GUARDS[condition.operator]), negation(any_of(tests))])
        return any_of(tests)

    def _related(self, condition: operators.Condition) -> Filter:
        """The list of relations is the same for all that the principal is not related to: it is empty."""
        if any(_is_of_row(key) for key in operators.keys(condition) - {condition.key}):
            raise Unsupported("relations are compared with an attribute of the thing")
        answers: dict[tuple[str, ...], bool] = {}

        def holds(names: Sequence[str]) -> bool:
            of = tuple(names)
            if of not in answers:
                answers[of] = condition.holds({**self.known.context, condition.key: of}, self.meter)
            return answers[of]

        plain = holds(())
        if condition.key == _RELATIONS:
            others = self._ids("id", self.known.relations, lambda names: holds(names) is not plain)
        else:
            others = any_of(
                all_of(
                    [
                        filters.Equals("parentType", (type_,)),
                        self._ids("parentId", of, lambda names: holds(names) is not plain),
                    ]
                )
                for type_, of in self.known.parents.items()
            )
        return negation(others) if plain else others

    def _ids(self, field: str, relations: Relations, wanted: Callable[[Sequence[str]], bool]) -> Filter:
        self.meter.spend(len(relations))
        ids = tuple(sorted(id for id, names in relations.items() if wanted(names)))
        return filters.Equals(field, ids) if ids else _NEVER

    def _tokens(self, pattern: glob.Glob) -> list[str | Wild] | None:
        if any(_is_of_row(key) for key in glob.keys(pattern)):
            raise Unsupported("a pattern has an attribute of the thing")
        tokens = pattern.resolved(self.known.context)
        self.meter.spend(1 if tokens is None else len(tokens))
        return tokens

    def _text(self, of: template.Template) -> str | None:
        if any(_is_of_row(key) for key in template.keys(of)):
            raise Unsupported("an attribute of the thing is compared with another")
        resolved = template.resolve(of, self.known.context)
        self.meter.spend(1 if resolved is None else 1 + len(resolved))
        return resolved

    def equals(self, field: str, expected: template.Template) -> Filter:
        resolved = self._text(expected)
        return _NEVER if resolved is None else filters.Equals(field, (resolved,))

    def equals_folded(self, field: str, expected: template.Template) -> Filter:
        resolved = self._text(expected)
        return _NEVER if resolved is None else filters.Equals(field, (resolved.lower(),), ignore_case=True)

    def like(self, field: str, expected: glob.Glob) -> Filter:
        tokens = self._tokens(expected)
        return _NEVER if tokens is None else _like(field, tokens)

    def like_folded(self, field: str, expected: glob.Glob) -> Filter:
        """A character that is not in lower case, from a number's text, equals none of a value in lower case."""
        tokens = self._tokens(expected)
        if tokens is None or any(isinstance(token, str) and token != token.lower() for token in tokens):
            return _NEVER
        return _like(field, tokens, ignore_case=True)

    def scalar(self, field: str, expected: float | bool) -> Filter:
        return filters.Equals(field, (expected,))

    def inside(self, field: str, expected: network.Network) -> Filter:
        return filters.Ip(field, network.written(expected))

    def has(self, field: str, expected: operators.Member) -> Filter:
        if not isinstance(expected, tuple):
            return filters.Contains(field, expected)
        resolved = self._text(expected)
        return _NEVER if resolved is None else filters.Contains(field, resolved)


def _is_of_row(key: str) -> bool:
    """Whether only the thing can say: its tenant is the session's."""
    return key.startswith(_ROW) and key != _TENANT


def _like(field: str, tokens: list[str | Wild], *, ignore_case: bool = False) -> Filter:
    if all(isinstance(token, str) for token in tokens):
        return filters.Equals(field, ("".join(map(str, tokens)),), ignore_case)
    if _is_any(tokens):
        return filters.Type(field, "string")
    return filters.Like(field, filters.pattern(tokens), ignore_case)


def _is_any(tokens: Sequence[str | Wild]) -> bool:
    return bool(tokens) and all(token is Wild.RUN for token in tokens)


def _after(tokens: Sequence[str | Wild], state: int, char: str) -> Iterable[int]:
    if state == len(tokens):
        return ()
    token = tokens[state]
    if token is Wild.RUN:
        return (state,)
    return (state + 1,) if token is Wild.ONE or token == char else ()


def _closed(tokens: Sequence[str | Wild], states: set[int]) -> set[int]:
    """A star may also stand for nothing."""
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state < len(tokens) and tokens[state] is Wild.RUN and state + 1 not in states:
            states.add(state + 1)
            waiting.append(state + 1)
    return states


def _compared(name: Any) -> Callable[[_Planner, str, float], Filter]:
    return lambda planner, field, expected: filters.Compare(field, name, expected)


def _dated(name: Any) -> Callable[[_Planner, str, int], Filter]:
    return lambda planner, field, expected: filters.Date(field, name, instant.written(expected))


_Atom = Callable[[_Planner, str, Any], Filter]

_BY_NAME: Mapping[str, _Atom] = {
    "StringEquals": _Planner.equals,
    "StringNotEquals": _Planner.equals,
    "StringEqualsIgnoreCase": _Planner.equals_folded,
    "StringNotEqualsIgnoreCase": _Planner.equals_folded,
    "StringLike": _Planner.like,
    "StringNotLike": _Planner.like,
    "StringLikeIgnoreCase": _Planner.like_folded,
    "Bool": _Planner.scalar,
    "NumericEquals": _Planner.scalar,
    "NumericNotEquals": _Planner.scalar,
    "NumericLessThan": _compared("lt"),
    "NumericLessThanEquals": _compared("le"),
    "NumericGreaterThan": _compared("gt"),
    "NumericGreaterThanEquals": _compared("ge"),
    "DateBefore": _dated("before"),
    "DateAfter": _dated("after"),
    "IpAddress": _Planner.inside,
    "NotIpAddress": _Planner.inside,
    "ArrayContains": _Planner.has,
    "ArrayContainsAll": _Planner.has,
}
"""What each operator asks of a field, for one expected value; `Exists` asks whether it is there."""

_ATOMS: Mapping[operators.Operator, _Atom] = {operators.OPERATORS[name]: atom for name, atom in _BY_NAME.items()}

_GUARDS: Mapping[operators.Operator, Any] = {
    operators.OPERATORS["StringNotEquals"]: "string",
    operators.OPERATORS["StringNotEqualsIgnoreCase"]: "string",
    operators.OPERATORS["StringNotLike"]: "string",
    operators.OPERATORS["NumericNotEquals"]: "number",
    operators.OPERATORS["NotIpAddress"]: "ip",
}
"""The type that a negated operator's value must have to pass at all."""
