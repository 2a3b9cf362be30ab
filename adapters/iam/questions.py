"""Policy decisions as lines of JSON: one question a line in, one answer a line out (`better-compute iam evaluate`).

A question is `{"action", "resource", "grants", "boundaries"?, "context"?}`; other members are passed over. An answer
is `{"allowed", "reason", "matched"}`, or `{"error"}` with INVALID_REQUEST, INVALID_POLICY or MALFORMED.
"""

import json
from math import inf
from typing import Any, Final

from domain import policy

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of one question."""
_MAX_DIGITS: Final = 400
"""Digits of an integer from which on no double holds it: it reads as infinity (iam.md §2, "Numbers")."""


class Malformed(ValueError):
    """The line is no question: it is not an object of JSON."""


def answer(line: bytes, *, explain: bool = False) -> dict[str, Any]:
    """The answer to one line; with `explain`, an error says what is wrong and where. A malformed line always does."""
    try:
        asked = _read(line)
    except Malformed as problem:
        return {"error": "MALFORMED", "message": str(problem)}
    optional = {name: asked[name] for name in ("boundaries", "context") if name in asked}
    try:
        decided = policy.evaluate_documents(asked.get("action"), asked.get("resource"), asked.get("grants"), **optional)
    except (policy.InvalidRequest, policy.InvalidPolicy) as refusal:
        return {"error": refusal.code} | ({"message": refusal.detail} if explain else {})
    return {"allowed": decided.allowed, "reason": decided.reason, "matched": list(decided.matched)}


def written(answered: dict[str, Any]) -> bytes:
    """One line of ASCII, in which lone surrogates of a sid come through as escapes."""
    return json.dumps(answered, separators=(",", ":")).encode("ascii") + b"\n"


def _read(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise Malformed(f"the line is longer than {MAX_LINE} bytes")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise Malformed(f"byte {problem.start + 1} of the line is not UTF-8") from None
    try:
        asked = json.loads(text, parse_int=_integer, parse_constant=_constant)
    except json.JSONDecodeError as problem:
        raise Malformed(f"it is not JSON: {problem.msg} at character {problem.pos + 1}") from None
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    if not isinstance(asked, dict):
        raise Malformed("it is not an object")
    return asked


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else -inf if digits.startswith("-") else inf


def _constant(name: str) -> float:
    raise Malformed(f"{name} is no number of JSON")
