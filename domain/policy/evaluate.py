"""Decisions: denies win, a grant is needed, and every boundary must agree (iam.md §4)."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from domain import errors
from domain.policy import document, text
from domain.policy.meter import Exhausted, Meter
from domain.policy.template import Context

Reason = Literal["allowed", "explicit-deny", "no-grant", "boundary-deny", "evaluation-limit"]

_NO_CONTEXT: Context = {}


class InvalidRequest(errors.Invalid):
    """A question that cannot be decided because action, resource, documents or context are malformed."""

    code: ClassVar[str] = "INVALID_REQUEST"


class Decision(Struct, frozen=True):
    """The outcome, and every statement that applied: `grant:<document>:<sid or index>`, `boundary:…`."""

    allowed: bool
    reason: Reason
    matched: tuple[str, ...]


def evaluate(
    action: str,
    resource: str,
    grants: Sequence[document.Compiled],
    boundaries: Sequence[document.Compiled] = (),
    context: Context = _NO_CONTEXT,
) -> Decision:
    """Decides `action` on `resource` ("<type>/<id>"); `context` needs only the keys that documents read."""
    _check_name("action", action, 512)
    _check_name("resource", resource, 2048)
    scan = _Scan(action, resource, context)
    try:
        granted = scan.allows("grant", grants).count(True) > 0
        agreed = scan.allows("boundary", boundaries).count(False) == 0
    except Exhausted:
        return Decision(False, "evaluation-limit", tuple(scan.matched))
    if scan.denied:
        reason: Reason = "explicit-deny"
    elif not granted:
        reason = "no-grant"
    else:
        reason = "allowed" if agreed else "boundary-deny"
    return Decision(reason == "allowed", reason, tuple(scan.matched))


def evaluate_documents(
    action: object,
    resource: object,
    grants: object,
    boundaries: object = (),
    context: object = _NO_CONTEXT,
) -> Decision:
    """Decides on documents as JSON gave them: the request is checked first, then every document (iam.md §1).

    A null is not an absence: leave `boundaries` and `context` out where the request has none.
    """
    action = _check_name("action", action, 512)
    resource = _check_name("resource", resource, 2048)
    if not isinstance(grants, list | tuple):
        raise InvalidRequest("grants", "must be a list of policy documents")
    if not isinstance(boundaries, list | tuple):
        raise InvalidRequest("boundaries", "must be a list of policy documents; leave it out for none")
    if not isinstance(context, dict):
        raise InvalidRequest("context", "must be an object; leave it out for none")
    return evaluate(action, resource, _compiled(grants), _compiled(boundaries), context)


def _compiled(documents: Iterable[object]) -> tuple[document.Compiled, ...]:
    return tuple(document.validate(entry) for entry in documents)


def _check_name(field: str, value: object, most: int) -> str:
    if isinstance(value, str) and value and text.utf16_length(value) <= most and not text.has_control(value):
        return value
    raise InvalidRequest(field, f"must be a string of 1 to {most} characters without control characters")


class _Scan:
    """One evaluation on its way: the work left, what applied so far, whether a deny was among it."""

    __slots__ = ("action", "context", "denied", "matched", "meter", "resource")

    def __init__(self, action: str, resource: str, context: Context) -> None:
        self.action = action
        self.resource = resource
        self.context = context
        self.meter = Meter()
        self.matched: list[str] = []
        self.denied = False

    def allows(self, kind: str, documents: Sequence[document.Compiled]) -> list[bool]:
        """Whether each document has an allow that applies. All are looked at: a later one may deny."""
        return [self._allows(f"{kind}:{index}", within) for index, within in enumerate(documents)]

    def _allows(self, name: str, within: document.Compiled) -> bool:
        route = within.route(self.action)
        allowed = False
        for work, statement in route.steps:
            self.meter.spend(work)
            if self._holds(statement):
                self.matched.append(f"{name}:{statement.label}")
                self.denied |= statement.deny
                allowed |= not statement.deny
        self.meter.spend(route.rest)
        return allowed

    def _holds(self, statement: document.Statement) -> bool:
        meter, context = self.meter, self.context
        return any(pattern.matches(self.resource, context, meter) for pattern in statement.resources) and all(
            condition.holds(context, meter) for condition in statement.conditions
        )
