"""What the database refused, in the house's own words (architecture.md §2: typed, at once, never retried here)."""

import json
from typing import Any, Final, NoReturn

import psycopg

from commands.ports import NodeClosed, QueueAhead, Race
from domain import errors

REFUSED: Final = "BC001"
"""The SQLSTATE of the migrations' `refuse`; its message is one of the codes below."""

_AGAIN = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)


_OUTAGES = ("08", "53", "57P", "40", "55P03")


def is_outage(fault: BaseException) -> bool:
    """Whether it will pass by itself: the server is away, out of something, or busy with another's lock.

    psycopg counts more as operational: an index entry that is too large, a statement that takes too long.
    """
    if not isinstance(fault, psycopg.OperationalError):
        return False
    return fault.sqlstate is None or fault.sqlstate.startswith(_OUTAGES)


def translate(fault: psycopg.Error) -> NoReturn:
    """Raise the Race or Refusal that this error means; what is none of ours is raised as it came."""
    if fault.sqlstate == REFUSED:
        _named(fault.diag.message_primary or "", json.loads(fault.diag.message_detail or "{}"))
    if isinstance(fault, psycopg.errors.ExclusionViolation):
        raise errors.DoubleBooked("a device is booked in this time already") from fault
    if isinstance(fault, psycopg.errors.UniqueViolation):
        _taken(fault)
    if isinstance(fault, _AGAIN):
        raise Race("another append was in the way") from fault
    if isinstance(fault, _BUSY):
        raise errors.Locked("the database is busy with a lock; try again") from fault
    if isinstance(fault, psycopg.errors.IdleInTransactionSessionTimeout):
        raise errors.Unavailable("the answer took too long to make; ask for fewer rows") from fault
    if isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError):
        raise errors.Unavailable("the database cannot be reached; try again") from fault
    raise fault


def _named(code: str, facts: dict[str, Any]) -> NoReturn:
    match code:
        case "QUOTA_EXCEEDED":
            raise errors.QuotaExceeded(facts["kind"], facts["resource"], facts["limit"], facts["peak"])
        case "TOO_MANY_DRAFTS":
            seconds = max(1, -(-facts["milliseconds"] // 1000))
            raise errors.TooManyRequests(
                f"at most {facts['most']} drafts of one identity wait to be decided on", seconds
            )
        case "BUDGET_EXCEEDED":
            said = (facts["kind"], facts["budget"], facts["needed"], facts["left"])
            raise errors.BudgetExceeded(*said, endless=facts["endless"])
        case "DOUBLE_BOOKED":
            raise errors.DoubleBooked(f"the node has not enough {facts['resource']} in this time")
        case "CLEANING":
            raise errors.DoubleBooked(f"the pool keeps {facts['seconds']} seconds between two bookings of a device")
        case "FENCED":
            raise errors.Fenced(f"the lease {facts['lease']} has a newer holder")
        case "QUEUE_AHEAD":
            raise QueueAhead(code)
        case "NODE_CLOSED":
            raise NodeClosed(code)
        case "POOL_CLOSED":
            raise errors.Conflict("the pool is retired and takes nothing new")
        case "PROJECT_ARCHIVED":
            raise errors.archived("projectId")
        case "POOL_IN_USE":
            kind, ids = next(iter(facts.items()))
            raise errors.Conflict(f"the pool still has {kind}: {', '.join(ids)}", extra={kind: tuple(ids)})
        case "NODE_BOOKED":
            held = tuple(facts["reservations"])
            raise errors.Conflict(
                f"{facts['act']} is refused while the node carries bookings: {', '.join(held)}",
                extra={"reservations": held},
            )
        case "DISRUPTION_BUDGET":
            counted = tuple(facts["nodes"])
            raise errors.Conflict(
                f"at most {facts['most']} of the pool's nodes may be disrupted at once, and these are: "
                f"{', '.join(counted)}; wait for them, or force it",
                extra={"most": facts["most"], "nodes": counted},
            )
        case _:
            raise Race(code)


def _taken(fault: psycopg.errors.UniqueViolation) -> NoReturn:
    if fault.diag.constraint_name != "unique_keys_pkey":
        raise Race("the stream moved on") from fault
    kind = (fault.diag.message_detail or "").partition("=(")[2].partition(",")[0]
    if kind in ("site", "pool", "node", "project", "flavor"):
        message = f"another {kind} of this owner has the name"
        raise errors.Conflict(message, errors=(errors.FieldError("name", message),)) from fault
    if kind == "image":
        message = "another image of this owner has the name and version, which stand for its bytes for ever"
        fields = (errors.FieldError("name", message), errors.FieldError("imageVersion", "take another version"))
        raise errors.Conflict(message, errors=fields) from fault
    raise Race(f"{kind} exists already") from fault
