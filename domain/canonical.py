"""Canonical JSON as Better IAM writes it, so that one verifier serves its chain and ours (iam.md §17).

Keys go by UTF-16 code units, after those that are array indexes, which go by number; numbers and strings are written
as ECMAScript writes them. On what RFC 8785 also takes, without array-index keys, both give the same bytes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from domain.policy import text

_LAST_INDEX: Final = 4_294_967_294
_EXACT: Final = 2**53
_ESCAPED: Final = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)},
    **{ord(char): f"\\{name}" for char, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
_sorted = msgspec.json.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """UTF-8 of the canonical text of JSON-like data: dicts, lists, tuples, str, int, float, bool, None.

    Raises TypeError for any other type, and ValueError for a number that JSON has no form for.
    """
    if _plain(value):
        try:
            return _sorted.encode(value)
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 has no form for
            return written(value)
    return written(value)


def written(value: object) -> bytes:
    """The same bytes, member by member: for everything, and what the fast way is measured against."""
    return _text(value).encode()


def _plain(value: object) -> bool:
    """Whether msgspec's sorted encoding is the canonical one: no floats, no big numbers, keys of plain ASCII words."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return -_EXACT < value < _EXACT  # type: ignore[operator]
    if kind is dict:
        for key, member in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or not key.isascii() or key.isdigit():
                return False
            if type(member) is not str and not _plain(member):
                return False
        return True
    return (kind is list or kind is tuple) and all(map(_plain, value))  # type: ignore[call-overload]


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case int() | float():
            return _number(value)
        case Mapping():
            members = sorted(value.items(), key=lambda member: _place(member[0]))
            return "{" + ",".join(f"{_quoted(key)}:{_text(member)}" for key, member in members) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_text, value)) + "]"
    raise TypeError(f"canonical JSON has no form for a {type(value).__name__}")


def _quoted(string: str) -> str:
    return f'"{text.joined(string).translate(_ESCAPED)}"'


def _number(value: float) -> str:
    number = text.finite(value)
    if number is None:
        raise ValueError(f"{value} has no form in JSON")
    return text.number_text(number)


def _place(key: str) -> tuple[int, int, bytes]:
    """Where a key stands: array indexes first, by number; then UTF-16 code units, which order as their big-endian."""
    if key.isascii() and key.isdigit() and (key == "0" or key[0] != "0") and int(key) <= _LAST_INDEX:
        return (0, int(key), b"")
    return (1, 0, key.encode("utf-16-be", "surrogatepass"))
