"""What a caller sent, as the operation's request; what is wrong becomes a refusal that names the place."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from domain import errors
from domain.operation import Operation, Request

from . import explain

MAX_DEPTH: Final = 64
INT64: Final = range(-(1 << 63), 1 << 63)

_fields: Final = cache(msgspec.structs.fields)
"""Annotations take long to evaluate, and API and console each have a shape of an operation."""


class Shape:
    """What decoding needs of one operation, worked out once: its fields and how a URL may spell each."""

    def __init__(self, operation: Operation) -> None:
        self.request = operation.request
        self.in_url = operation.in_url
        known = _fields(operation.request)
        self.types = {field.encode_name: field.type for field in known}
        by_name = {field.name: field.encode_name for field in known}
        self.path = {name: by_name.get(name, name) for name in operation.path_fields}
        unknown = set(self.path.values()) - set(self.types)
        if unknown:
            raise ValueError(f"{operation.name}: the path names {sorted(unknown)}, which the request has not")
        in_path = set(self.path.values())
        self.rest = tuple(name for name in self.types if name not in in_path)
        self.listed = frozenset(name for name in self.types if explain.is_array(self.types[name]))
        self.cast = frozenset(name for name in in_path if not explain.takes_text(self.types[name]))


def request_of(shape: Shape, path: Mapping[str, str], query: bytes, body: bytes) -> Request:
    """Path over query (GET) or body (all others). Nothing may come twice, nothing may be unknown."""
    found = _from_query(shape, query)
    if not shape.in_url:
        found = _from_body(body)
    for placeholder, name in shape.path.items():
        if name in found:
            raise errors.Invalid(name, "this comes from the path; leave it out of the body")
        found[name] = _path_value(shape, name, path[placeholder])
    made = _convert(shape, found, lax=shape.in_url)
    if shape.in_url or shape.cast:
        _check_numbers(shape, made)
    return made


def request_of_text(shape: Shape, found: dict[str, Any]) -> Request:
    """Of fields whose numbers may be spelt as text, as a form has them."""
    _survey(found)
    made = _convert(shape, found, lax=True)
    _check_numbers(shape, made)
    return made


def _convert(shape: Shape, found: dict[str, Any], *, lax: bool, again: bool = True) -> Request:
    try:
        return msgspec.convert(found, shape.request, strict=not lax)
    except msgspec.ValidationError as error:
        if again and str(error).partition(" - at ")[0].endswith("got `float`"):
            return _convert(shape, _whole(found), lax=lax, again=False)
        raise explain.invalid(str(error), shape.request, found, shape.rest) from None


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 8.0 is the integer 8 (JSON Schema 2020-12 §4.2.3), which msgspec denies."""
    if type(value) is float and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if type(value) is dict:
        return {name: _whole(member) for name, member in value.items()}
    return [_whole(member) for member in value] if type(value) is list else value


def _from_query(shape: Shape, raw: bytes) -> dict[str, Any]:
    """Query strings as text; a list is one parameter with commas, since a repeated one is refused."""
    if not raw:
        return {}
    known = shape.rest if shape.in_url else ()
    found: dict[str, Any] = {}
    for name, value in _pairs(raw):
        if name not in known:
            here = ", ".join(known) if known else "none"
            raise errors.Malformed(f"there is no query parameter {name[:80]!r} here; known are: {here}")
        if name in found:
            raise errors.Malformed(f"the query parameter {name} came twice; send it once")
        if "\x00" in value:
            raise errors.Invalid(name, "NUL characters cannot be stored")
        found[name] = (value.split(",") if value else []) if name in shape.listed else value
    return found


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except UnicodeDecodeError:
        raise errors.Malformed("the query string is not percent-encoded UTF-8") from None
    except ValueError:
        raise errors.Malformed("the query string has more than 100 parameters") from None


def _from_body(raw: bytes) -> dict[str, Any]:
    if not raw:
        return {}
    try:
        found = msgspec.json.decode(raw)
    except RecursionError:
        raise errors.Malformed(f"the body is nested deeper than {MAX_DEPTH} levels") from None
    except msgspec.ValidationError as error:
        raise errors.Invalid("body", f"a number is too large: {str(error).lower()}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.Malformed(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.Invalid("body", "expected a JSON object")
    keys = _survey(found)
    if keys != raw.count(b":") and _repeats(raw):
        raise errors.Malformed("the body names a member twice in one object; send each once")
    return found


def _survey(body: dict[str, Any]) -> int:
    """Refuse what no field can hold: NUL, integers beyond 64 bits, depth. Return the count of members."""
    keys = 0
    level: list[tuple[str, Any]] = [("", body)]
    for _ in range(MAX_DEPTH):
        below: list[tuple[str, Any]] = []
        for path, value in level:
            kind = type(value)
            if kind is str:
                if "\x00" in value:
                    raise errors.Invalid(path, "NUL characters cannot be stored")
            elif kind is int:
                if value not in INT64:
                    raise errors.Invalid(path, "expected an integer of at most 64 bits")
            elif kind is dict:
                keys += len(value)
                for name, member in value.items():
                    if "\x00" in name:
                        raise errors.Invalid(path or "body", "NUL characters cannot be stored")
                    below.append((f"{path}.{name}" if path else name, member))
            elif kind is list:
                below.extend((f"{path}[{index}]", member) for index, member in enumerate(value))
        if not below:
            return keys
        level = below
    raise errors.Malformed(f"the body is nested deeper than {MAX_DEPTH} levels")


def _repeats(raw: bytes) -> bool:
    """Whether an object has a member twice; asked only when a colon stands in a text or a member is gone."""
    members = 0

    def count(pairs: list[tuple[str, Any]]) -> None:
        nonlocal members
        members += len(pairs) - len({name for name, _ in pairs})

    json.loads(raw, object_pairs_hook=count)
    return members > 0


def _path_value(shape: Shape, name: str, text: str) -> Any:
    if "\x00" in text or "\ufffd" in text:
        raise errors.Invalid(name, "expected text that can be stored, percent-encoded as UTF-8")
    if name not in shape.cast or shape.in_url:
        return text
    try:
        value = msgspec.convert(text, shape.types[name], strict=False)
    except msgspec.ValidationError as error:
        raise explain.invalid(str(error), shape.types[name], text, (), at=name) from None
    return msgspec.to_builtins(value)


def _check_numbers(shape: Shape, made: Request) -> None:
    """Lax conversion of a URL's text takes `nan` and numbers of any length, which no column does."""
    for field in shape.request.__struct_fields__:
        value = getattr(made, field)
        if type(value) is int and value not in INT64:
            raise errors.Invalid(_spelling(shape, field), "expected an integer of at most 64 bits")
        if type(value) is float and value - value != 0:
            raise errors.Invalid(_spelling(shape, field), "expected a finite number")


def _spelling(shape: Shape, field: str) -> str:
    return shape.request.__struct_encode_fields__[shape.request.__struct_fields__.index(field)]
