"""Every refusal Better Compute can give, each with a stable code (api.md §2).

Refusal
├── Invalid              INVALID                 a field of the wrong type, name or value
├── KeyReused            IDEMPOTENCY_KEY_REUSED  the same key came with another body
├── Malformed            MALFORMED               not JSON, or an unknown query parameter
├── Unauthenticated      UNAUTHENTICATED         no token, or one that is unknown, expired or revoked
├── AccessDenied         ACCESS_DENIED           you can see it, but the action is not allowed to you
│   ├── MfaRequired        MFA_REQUIRED          Better IAM requires a second factor in this session first
│   └── RecentAuthRequired RECENT_AUTH_REQUIRED  Better IAM requires a recent sign-in first
├── NotFound             NOT_FOUND               it does not exist, or you cannot see it: the same answer
├── Conflict             CONFLICT                the present state does not allow it
│   ├── IllegalTransition  ILLEGAL_TRANSITION    the state does not allow this operation; `allowed` names those it does
│   ├── DoubleBooked       DOUBLE_BOOKED         no room now, and the claim does not wait
│   ├── QuotaExceeded      QUOTA_EXCEEDED        `kind`, `resource`, its `limit`, and the `peak` with the claim
│   ├── BudgetExceeded     BUDGET_EXCEEDED       `kind`; `budgetGpuMs`, and of it what was needed and what is left
│   ├── SpendLimitReached  SPEND_LIMIT_REACHED   Better IAM's billing allows no more spending, or did not answer
│   └── Fenced             FENCED                another process or session took over (a newer epoch)
├── HistoryPruned        HISTORY_PRUNED          asOf is before the history that is kept, from `keptFrom` on
├── StaleVersion         STALE_VERSION           it has another version than If-Match names
├── TooManyRequests      RATE_LIMITED            too many requests; `retryAfterSeconds`, also as Retry-After
└── Unavailable          UNAVAILABLE             try again later
    ├── StorageFull      STORAGE_FULL            the plane's disk has no room for the bytes of an image
    ├── ProjectionBehind PROJECTION_BEHIND       the read model has not reached waitFor yet
    └── EvidenceUnsound  EVIDENCE_UNSOUND        the log's evidence is not what was recorded or signed
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

Extra = Mapping[str, str | int | tuple[str, ...]]


class FieldError(Struct, frozen=True):
    """Names one field of the request (`devices[0].count`) and what would be right there."""

    field: str
    message: str


class Refusal(Exception):
    """An answer that says no, with what to do about it; `extra` joins the problem document."""

    code: ClassVar[str] = "REFUSED"

    def __init__(self, detail: str, *, errors: Iterable[FieldError] = (), extra: Extra | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.extra: dict[str, str | int | tuple[str, ...]] = dict(extra or {})
        self.replayed = False


class Invalid(Refusal):
    """A field that cannot be; `field` is its path in the request."""

    code = "INVALID"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", errors=(FieldError(field, message),))
        self.field = field
        self.message = message


class KeyReused(Refusal):
    code = "IDEMPOTENCY_KEY_REUSED"


class Malformed(Refusal):
    code = "MALFORMED"


class Unauthenticated(Refusal):
    code = "UNAUTHENTICATED"


class AccessDenied(Refusal):
    code = "ACCESS_DENIED"


class MfaRequired(AccessDenied):
    code = "MFA_REQUIRED"


class RecentAuthRequired(AccessDenied):
    code = "RECENT_AUTH_REQUIRED"


STEP_UP: Mapping[str, type[AccessDenied]] = {kind.code: kind for kind in (MfaRequired, RecentAuthRequired)}
"""Reasons of a no that the caller can do something about, with the refusal that says so (iam.md §12)."""


class NotFound(Refusal):
    """Missing, foreign and not offered are one answer, so that nobody learns what exists (api.md §2)."""

    code = "NOT_FOUND"

    def __init__(self, what: str, identifier: str, field: str = "id", when: str = "") -> None:
        detail = f"no {what} {identifier!r} is visible to you{when}"
        super().__init__(detail, errors=(FieldError(field, detail),))


class Conflict(Refusal):
    code = "CONFLICT"


def archived(field: str) -> Conflict:
    """The refusal of a project that takes nothing new."""
    message = "the project is archived and takes nothing new"
    return Conflict(f"{field}: {message}", errors=(FieldError(field, message),))


class IllegalTransition(Conflict):
    """A verb that the present state does not take; names the states or verbs that are legal next.

    Where none is, it says whether that is for good: a state can end by itself and take no verb meanwhile.
    """

    code = "ILLEGAL_TRANSITION"

    def __init__(self, state: str, verb: str, allowed: Iterable[str], *, final: bool = True) -> None:
        legal = tuple(allowed)
        none = "nothing is legal any more: the state is final" if final else "no verb is legal now: it ends by itself"
        follow = f"legal now: {', '.join(legal)}" if legal else none
        super().__init__(f"{verb} is not possible in {state}; {follow}", extra={"state": state, "allowed": legal})


class DoubleBooked(Conflict):
    code = "DOUBLE_BOOKED"


class QuotaExceeded(Conflict):
    """Names resource, limit and the peak that the claim would have made; `kind`: offering, tenant or project."""

    code = "QUOTA_EXCEEDED"

    def __init__(self, kind: str, resource: str, limit: int, peak: int) -> None:
        super().__init__(
            f"the {kind}'s quota of {resource} is {limit}; with this claim its use would peak at {peak}",
            extra={"kind": kind, "resource": resource, "limit": limit, "peak": peak},
        )


class BudgetExceeded(Conflict):
    """All in GPU-milliseconds; `kind`: tenant or project. What is left is less than nothing after a cut.

    `endless`: neither the claim nor the budget's period has an end.
    """

    code = "BUDGET_EXCEEDED"

    def __init__(self, kind: str, budget: int, needed: int, left: int, *, endless: bool = False) -> None:
        hours = {name: f"{ms / 3_600_000:.2f}" for name, ms in (("all", budget), ("needs", needed), ("left", left))}
        needs = "this needs " + hours["needs"]
        if endless:
            needs = "this runs on without an end, which only a budget with `until` can hold"
        super().__init__(
            f"the {kind}'s budget is {hours['all']} GPU-hours, {hours['left']} are left; {needs}",
            extra={"kind": kind, "budgetGpuMs": budget, "neededGpuMs": needed, "leftGpuMs": left},
        )


class SpendLimitReached(Conflict):
    code = "SPEND_LIMIT_REACHED"


class Fenced(Conflict):
    code = "FENCED"


class HistoryPruned(Refusal):
    """`kept_from` is the first position that can still be asked for."""

    code = "HISTORY_PRUNED"

    def __init__(self, kept_from: int) -> None:
        super().__init__(
            f"history is kept from position {kept_from} on; ask with asOf=@{kept_from} or later",
            extra={"keptFrom": kept_from},
        )


class StaleVersion(Refusal):
    code = "STALE_VERSION"


class TooManyRequests(Refusal):
    """`retry_after` is in whole seconds."""

    code = "RATE_LIMITED"

    def __init__(self, detail: str, retry_after: int) -> None:
        super().__init__(detail, extra={"retryAfterSeconds": retry_after})
        self.retry_after = retry_after


class Unavailable(Refusal):
    code = "UNAVAILABLE"


class Locked(Unavailable):
    """Somebody holds a row for longer than a statement waits; the database itself answers."""


class StorageFull(Unavailable):
    """Somebody has to make room first: it makes no sense to come back at once."""

    code = "STORAGE_FULL"
    retry_after = 300


class ProjectionBehind(Unavailable):
    code = "PROJECTION_BEHIND"


class EvidenceUnsound(Unavailable):
    """Nothing can be signed or shown by it until somebody has looked at what happened to the database."""

    code = "EVIDENCE_UNSOUND"

    def __init__(self, what: str) -> None:
        super().__init__(f"the log's evidence is not sound: {what}; `better-compute audit verify` names all of it")


def again(code: str, detail: str, extra: Extra) -> Refusal:
    """The refusal of this code as it was first given, for whoever asks the same again."""
    kinds = [Refusal]
    for kind in kinds:
        kinds += kind.__subclasses__()
    of = next(kind for kind in kinds if kind.code == code)
    refusal = of.__new__(of)
    Refusal.__init__(refusal, detail, extra=extra)
    return refusal
