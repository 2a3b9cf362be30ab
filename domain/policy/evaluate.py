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
    meter = Meter()
    matched: list[str] = []
    try:
        granted, denies = _apply("grant", grants, action, resource, context, meter, matched)
        agreed, more = (
            _apply("boundary", boundaries, action, resource, context, meter, matched) if boundaries else (0, 0)
        )
    except Exhausted:
        return Decision(False, "evaluation-limit", tuple(matched))
    if denies or more:
        reason: Reason = "explicit-deny"
    elif not granted:
        reason = "no-grant"
    else:
        reason = "allowed" if agreed == len(boundaries) else "boundary-deny"
    return Decision(reason == "allowed", reason, tuple(matched))


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
    if type(value) is str and 0 < len(value) <= most and value.isascii() and value.isprintable():
        return value
    if isinstance(value, str) and value and text.utf16_length(value) <= most and not text.has_control(value):
        return value
    raise InvalidRequest(field, f"must be a string of 1 to {most} characters without control characters")


def _apply(
    kind: str,
    documents: Sequence[document.Compiled],
    action: str,
    resource: str,
    context: Context,
    meter: Meter,
    matched: list[str],
) -> tuple[int, int]:
    """How many of the documents have an allow that applies, and how many denies do; `matched` gets the labels.

    All documents are looked at: a later one may deny. Loops instead of `any` and `all`, here and below: a decision
    is a few microseconds, and a generator is one of them.
    """
    allowing = denies = 0
    for index, within in enumerate(documents):
        route = within.route(action)
        allows = False
        for work, statement in route.steps:
            meter.spend(work)
            if _holds(statement, resource, context, meter):
                matched.append(f"{kind}:{index}:{statement.label}")
                if statement.deny:
                    denies += 1
                else:
                    allows = True
        meter.spend(route.rest)
        allowing += allows
    return allowing, denies


def _holds(statement: document.Statement, resource: str, context: Context, meter: Meter) -> bool:
    for pattern in statement.resources:
        if pattern.matches(resource, context, meter):
            break
    else:
        return False
    for condition in statement.conditions:  # noqa: SIM110
        if not condition.holds(context, meter):
            return False
    return True
