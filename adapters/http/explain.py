"""msgspec's refusals in the API's words: the field as the caller spelt it, and what would be right there."""

import enum
import re
import types
from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from domain import errors

_PLACE: Final = re.compile(r"(.*) - at `(key` in `)?\$(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_NAMED: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_RULE: Final = re.compile(r"(\w+)((?:[.\[][\w.\[\]]*)?): (.*)", re.DOTALL)
"""How a struct's own check (`__post_init__`) names the field that it refuses, or a place below it."""
_TOLD: Final = re.compile(r"`([^`]*)`")
_SAID: Final = {"str": "text", "int": "an integer", "float": "a number", "bool": "true or false"}
_ARRAYS: Final = (list, tuple, set, frozenset)
_LONGEST: Final = 300


def kinds(declared: Any) -> list[Any]:
    """The alternatives of a type, without annotations: `Annotated[int, …] | None` is int and None."""
    origin = get_origin(declared)
    if origin is Annotated:
        return kinds(get_args(declared)[0])
    if origin in (Union, types.UnionType):
        return [kind for part in get_args(declared) for kind in kinds(part)]
    return [declared]


def is_array(declared: Any) -> bool:
    return any((get_origin(kind) or kind) in _ARRAYS for kind in kinds(declared))


def takes_text(declared: Any) -> bool:
    """Whether the text of a URL is a value of this type as it stands."""
    return any(
        kind is str or get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, str | enum.Enum))
        for kind in kinds(declared)
    )


def invalid(message: str, declared: Any, value: Any, known: Collection[str], at: str = "") -> errors.Invalid:
    """msgspec's message as a refusal. `known` are the names of the top level; `at` goes before the place."""
    what, in_key, place = message, None, ""
    if match := _PLACE.fullmatch(message):
        what, in_key, place = match.groups()
    path, types_here, parents = _walk(place, kinds(declared), value)
    path = at + path if at else path.removeprefix(".")
    if match := _NAMED.fullmatch(what):
        field = f"{path}.{match[2]}" if path else match[2]
        if match[1] == "missing required":
            return errors.Invalid(field[:_LONGEST], "this is required")
        names = _names(types_here) if path else tuple(known)
        return errors.Invalid(field[:_LONGEST], f"there is no such field; known are: {', '.join(names) or 'none'}")
    if (match := _RULE.fullmatch(what)) and match[1] in _names(types_here):
        path, what = f"{path}.{match[1]}{match[2]}".removeprefix("."), match[3]
    if in_key:
        keys = [of for kind in types_here if get_origin(kind) is dict for of in kinds(get_args(kind)[0])]
        said = f"in a key: {_say(what, keys, [])}"
    else:
        said = _say(what, types_here, parents)
    return errors.Invalid(path[:_LONGEST] or "body", said[:_LONGEST])


def _say(what: str, here: list[Any], parents: list[Any]) -> str:
    choices = _choices(here) or (_tags(parents) if what.startswith("Invalid value") else ())
    if choices and what.startswith("Invalid"):
        return f"expected one of {', '.join(choices)}"
    return _TOLD.sub(_in_words, what[:1].lower() + what[1:])


def _in_words(told: re.Match[str]) -> str:
    return " or ".join(_SAID.get(kind, kind) for kind in told[1].split(" | "))


def _walk(place: str, here: list[Any], value: Any) -> tuple[str, list[Any], list[Any]]:
    """Follow msgspec's path through type and value; return it spelt, the types there and those above."""
    path, parents = "", here
    for name, index in _STEP.findall(place):
        parents = _narrow(here, value)
        if index == "...":
            key, here = _failing(parents, value)
            path += f".{key}" if key else "[...]"
            value = value.get(key) if isinstance(value, dict) else None
        elif name:
            path += f".{name}"
            here = [kind for parent in parents for kind in _member(parent, name)]
            value = value.get(name) if isinstance(value, dict) else None
        else:
            path += f"[{index}]"
            here = [kind for parent in parents for kind in _item(parent, int(index))]
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return path, _narrow(here, value), parents


def _narrow(here: list[Any], value: Any) -> list[Any]:
    """Of a tagged union, the struct that the value's tag means."""
    if not isinstance(value, dict):
        return here
    meant = [
        kind for kind in here if _is_struct(kind) and _tag(kind) is not None and _tag(kind) == _tagged(kind, value)
    ]
    return meant or here


def _member(parent: Any, name: str) -> list[Any]:
    if not _is_struct(parent):
        return []
    return [kind for field in msgspec.structs.fields(parent) if field.encode_name == name for kind in kinds(field.type)]


def _item(parent: Any, index: int) -> list[Any]:
    arguments = get_args(parent)
    if (get_origin(parent) or parent) not in _ARRAYS or not arguments:
        return []
    fixed = get_origin(parent) is tuple and Ellipsis not in arguments
    return kinds(arguments[min(index, len(arguments) - 1)] if fixed else arguments[0])


def _failing(parents: list[Any], value: Any) -> tuple[str, list[Any]]:
    """msgspec does not say which entry of a mapping is wrong: the first that does not convert."""
    for parent in parents:
        if get_origin(parent) is dict and isinstance(value, dict):
            entry = get_args(parent)[1]
            for key, member in value.items():
                try:
                    msgspec.convert(member, entry)
                except msgspec.ValidationError:
                    return key, kinds(entry)
    return "", []


def _is_struct(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)


def _tag(kind: Any) -> Any:
    return (get_origin(kind) or kind).__struct_config__.tag


def _tagged(kind: Any, value: dict[str, Any]) -> Any:
    return value.get((get_origin(kind) or kind).__struct_config__.tag_field)


def _tags(here: list[Any]) -> tuple[str, ...]:
    return tuple(str(_tag(kind)) for kind in here if _is_struct(kind) and _tag(kind) is not None)


def _names(here: list[Any]) -> tuple[str, ...]:
    return tuple(field.encode_name for kind in here if _is_struct(kind) for field in msgspec.structs.fields(kind))


def _choices(here: list[Any]) -> tuple[str, ...]:
    found: list[str] = []
    for kind in here:
        if get_origin(kind) is Literal:
            found += [str(choice) for choice in get_args(kind)]
        elif isinstance(kind, type) and issubclass(kind, enum.Enum):
            found += [str(member.value) for member in kind]
    return tuple(found)
