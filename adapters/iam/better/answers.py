"""What Better IAM's HTTP interface answers, read strictly: what is not of the contract's form is no answer at all."""

import math
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from domain import errors

T = TypeVar("T")

MAX_RETRY_MS: Final = 86_400_000

Code = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_-]+\Z")]
"""A stable code, as errors and decisions have: it goes into the log and to callers, so it is nothing else."""


class Failed(Exception):
    """It answered, and the answer is no: the HTTP status, and a stable code (iam.md §12).

    `retry_after` is in seconds, None where it did not say.
    """

    def __init__(self, status: int, code: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.retry_after = retry_after


class Unknown(errors.Unavailable):
    """Whether it did what it was asked is not known: no answer, or one that nobody can read (iam.md §11)."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"Better IAM, who decides what you may, cannot be asked just now ({what}); nothing was done, try again"
        )


class _Error(Struct, frozen=True, rename="camel"):
    code: Code
    retry_after_ms: int | float | None = None


class _Failure(Struct, frozen=True):
    error: _Error


def data(body: bytes, shape: type[T]) -> T:
    """The `data` of a success; fields that nobody here knows are passed over, wrong types are not."""
    try:
        whole: dict[str, msgspec.Raw] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(whole["data"], type=shape)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError, RecursionError):
        raise Unknown("its answer has not the form that was agreed") from None


def failure(status: int, body: bytes, retry_after: str | None) -> Failed:
    """The error of an answer; of one without the agreed body (a proxy's, or the Node transport's 413) the status."""
    header = _seconds(retry_after)
    try:
        said = msgspec.json.decode(body, type=_Failure).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Failed(status, "", header)
    if said.retry_after_ms is not None and 0 <= said.retry_after_ms <= MAX_RETRY_MS:
        return Failed(status, said.code, said.retry_after_ms / 1000)
    return Failed(status, said.code, header)


def _seconds(header: str | None) -> float | None:
    if header is None or not header.isascii() or not header.isdigit() or len(header) > 6:
        return None
    return float(header)


def whole_seconds(wait: float | None) -> int:
    """How a client is told to wait: at least a second."""
    return max(1, math.ceil(wait or 1))
