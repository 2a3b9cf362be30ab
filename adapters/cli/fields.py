"""How the fields of a request become arguments and options, and what is typed becomes values (api.md §3)."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import NODEFAULT, inspect

from adapters.cli import instants, tables
from adapters.cli.main import kebab
from domain.operation import Operation, Request

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic for type checkers only: click 8.2 cannot be subscripted

OWN: Final = frozenset(
    {
        *("server", "token", "profile", "json", "json-body", "if-match", "idempotency-key"),
        *("all", "watch", "wait", "timeout", "help"),
    }
)
"""Options of every command; a field of such a name is `--body-<name>`."""

_SIZES: Final = ("since",)
"""Fields of requests that hold a size of the log, where an answer's of that name is an instant."""

_COUNT: Final = inspect.IntType(ge=0)
_NESTED: Final = (
    inspect.AnyType,
    inspect.RawType,
    inspect.DictType,
    inspect.CollectionType,
    inspect.TupleType,
    inspect.StructType,
    inspect.TypedDictType,
    inspect.DataclassType,
)


class Json(ParamType):
    """A nested value, as JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as wrong:
            self.fail(f"not JSON: {wrong}", param, ctx)


class Piece(ParamType):
    """Part of a list or of a dict: JSON, or the short form that its type has; the option is repeatable."""

    def __init__(self, kind: inspect.Type) -> None:
        self.kind = kind
        self.name = _short_form(kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith(("[", "{")) or self.name == "json":
            return Json().convert(value, param, ctx)
        name, equals, rest = value.partition("=")
        if self.name == "value":
            return scalar(_item(self.kind)).convert(value, param, ctx)
        if not equals:
            self.fail(f"{value!r} is neither {self.name} nor JSON", param, ctx)
        if isinstance(self.kind, inspect.DictType):
            return {name: scalar(self.kind.value_type).convert(rest, param, ctx)}
        count, comma, selector = rest.partition(",")
        line = {"class": name, "count": scalar(_COUNT).convert(count, param, ctx)}
        return line | ({"selector": selector} if comma else {})


def option(field: inspect.Field, completes: Any = None) -> click.Option:
    """The option of one field; what is left out is not sent, so that the server's defaults stand."""
    notes = [_description(field.type), _repeated(field.type)]
    if field.required:
        notes.append("[required]")
    elif field.default not in (NODEFAULT, None, (), False) and isinstance(field.default, str | int | float):
        notes.append(f"[default: {field.default}]")
    text = " ".join(note for note in notes if note)
    kinds, name = kinds_of(field.type), flag(field)
    if _is_many(field.type):
        return click.Option([field.name, name], type=Piece(kinds[0]), multiple=True, help=text)
    if len(kinds) == 1 and isinstance(kinds[0], inspect.BoolType):
        return click.Option([field.name, f"{name}/--no-{name[2:]}"], default=None, help=text)
    if (
        tables.is_instant(field.encode_name)
        and field.encode_name not in _SIZES
        and any(isinstance(kind, inspect.IntType) for kind in kinds)
    ):
        return click.Option([field.name, name], type=instants.Instant(), help=text.replace("epoch ms", instants.SHORT))
    if field.encode_name in ("asOf", "diff"):
        return click.Option([field.name, name], type=instants.AsOf(), help=text.replace("epoch ms", instants.SHORT))
    return click.Option([field.name, name], type=scalar(field.type), help=text, shell_complete=completes)


def argument(field: inspect.Field, completes: Any = None) -> click.Argument:
    """The positional argument of a field that stands in the path; `completes` asks for what it may be."""
    named = kebab(field.encode_name).upper()
    return click.Argument([field.name], type=scalar(field.type), metavar=named, shell_complete=completes)


def flag(field: inspect.Field) -> str:
    name = kebab(field.encode_name)
    return f"--body-{name}" if name in OWN else f"--{name}"


def of(operation: Operation) -> Mapping[str, inspect.Field]:
    """The fields of an operation's request by their name in Python."""
    return _of(operation.request)


@cache
def _of(request: type[Request]) -> Mapping[str, inspect.Field]:
    shape = inspect.type_info(request)
    assert isinstance(shape, inspect.StructType)
    return {field.name: field for field in shape.fields}


def path_names(operation: Operation) -> list[str]:
    """The fields in the path, in its order; both `{pool_id}` and `{poolId}` name one."""
    names = {field.encode_name: name for name, field in of(operation).items()}
    return [names.get(placeholder, placeholder) for placeholder in operation.path_fields]


def kinds_of(kind: inspect.Type) -> list[inspect.Type]:
    """What a type may be, null and annotations aside."""
    if isinstance(kind, inspect.Metadata):
        return kinds_of(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [below for member in kind.types for below in kinds_of(member)]
    return [] if isinstance(kind, inspect.NoneType) else [kind]


def _description(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")) or _description(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next(filter(None, map(_description, kind.types)), "")
    return ""


def _is_many(kind: inspect.Type) -> bool:
    kinds = kinds_of(kind)
    many = (inspect.CollectionType, inspect.TupleType, inspect.DictType)
    return len(kinds) == 1 and isinstance(kinds[0], many)


def _repeated(kind: inspect.Type) -> str:
    """That an option may be given several times, and for a dict which keys it takes."""
    if not _is_many(kind):
        return ""
    match kinds_of(kind)[0]:
        case inspect.DictType(key_type=inspect.LiteralType(values=keys)):
            return f"[repeatable; KEY: {', '.join(map(str, keys))}]"
        case _:
            return "[repeatable]"


def _item(kind: inspect.Type) -> inspect.Type:
    return kind.item_type if isinstance(kind, inspect.CollectionType) else inspect.AnyType()


def _short_form(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.DictType):
        return "json" if isinstance(scalar(kind.value_type), Json) else "key=value"
    item = kinds_of(_item(kind))
    if len(item) == 1 and isinstance(item[0], inspect.StructType):
        names = {field.encode_name for field in item[0].fields}
        return "class=count[,selector]" if {"class", "count"} <= names else "json"
    return "json" if isinstance(scalar(_item(kind)), Json) else "value"


def scalar(kind: inspect.Type) -> ParamType:
    """How the text of one value is read; ranges and choices are in the help and refused before asking."""
    kinds = kinds_of(kind)
    if len(kinds) != 1:
        texts = any(isinstance(below, inspect.StrType) for below in kinds)
        return click.STRING if texts else Json()
    match kinds[0]:
        case inspect.IntType(gt=gt, ge=ge, lt=lt, le=le):
            least, most = ge if gt is None else gt + 1, le if lt is None else lt - 1
            return click.INT if least is None and most is None else click.IntRange(least, most)
        case inspect.FloatType() | inspect.DecimalType():
            return click.FLOAT
        case inspect.BoolType():
            return click.BOOL
        case inspect.EnumType(cls=cls):
            return click.Choice([str(member.value) for member in cls])
        case inspect.LiteralType(values=choices):
            return click.Choice(list(map(str, choices)))
        case kind if isinstance(kind, _NESTED):
            return Json()
        case _:
            return click.STRING


def value(field: inspect.Field, given: Any) -> Any:
    """What is sent: a repeated option as one list, or one dict, that a later piece adds to."""
    if not _is_many(field.type):
        return given
    if isinstance(kinds_of(field.type)[0], inspect.DictType):
        return {key: below for piece in given for key, below in piece.items()}
    return [item for piece in given for item in (piece if isinstance(piece, list) else [piece])]


def query(request: Mapping[str, Any]) -> dict[str, str]:
    """Query parameters are text: a list is one with commas, the rest is spelled as in JSON."""
    return {
        name: ",".join(map(_text, given)) if isinstance(given, list) else _text(given)
        for name, given in request.items()
    }


def _text(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given)
