"""Writes docs/reference/ from the registries, so that it cannot say what the program does not (`make docs`)."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from adapters import reference_metrics, reference_settings
from adapters.cli import manual
from adapters.http import openapi, problems
from adapters.registry import OPERATIONS
from domain import catalog, errors, registry
from domain.event import Event
from domain.operation import ALWAYS, Operation

Schema = dict[str, Any]

HEAD = "<!-- written by `make docs`; a test compares it with the program -->\n"


def pages() -> dict[str, str]:
    """File name to text."""
    return {
        "operations.md": operations(),
        "events.md": events(),
        "errors.md": refusals(),
        "iam.md": iam(),
        "settings.md": reference_settings.page(HEAD),
        "metrics.md": reference_metrics.page(HEAD),
        "cli.md": manual.page(HEAD),
    }


def operations() -> str:
    always = ", ".join(f"`{kind.code}`" for kind in ALWAYS)
    lines = [HEAD, "# Operations\n", f"Every operation can answer with these [errors](errors.md): {always}."]
    groups: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        groups.setdefault(operation.name.split(".")[0], []).append(operation)
    asked = [field.type for one in OPERATIONS.values() for field in _fields_of(one)]
    schemas, types = msgspec.json.schema_components(asked, ref_template="{name}")
    schema_of = dict(zip(map(repr, asked), schemas, strict=True))
    for group, members in groups.items():
        lines.append(f"\n## {group}\n")
        for operation in members:
            lines += _operation(operation, schema_of)
    lines.append("\n## Types\n")
    for name, schema in sorted(types.items()):
        lines += _table_of(name, schema)
    return "\n".join(lines) + "\n"


def _fields_of(operation: Operation) -> list[msgspec.structs.FieldInfo]:
    """What stands not in the path."""
    return [f for f in msgspec.structs.fields(operation.request) if f.encode_name not in operation.path_fields]


def _operation(operation: Operation, schema_of: dict[str, Schema]) -> Iterator[str]:
    yield f"\n### {operation.name}\n"
    yield f"`{operation.verb} {operation.path}` — {operation.summary}.\n"
    if operation.credential == "resolver":
        yield "Its credential is the resolver's key: no token opens it, and it is off unless there is a key."
    else:
        decided = ", ".join(f"`{name}`" for name in operation.on) or "the join token"
        yield f"Decided as `{operation.action}` on {decided}."
    if operation.key != "none":
        yield f"`Idempotency-Key` is {operation.key}."
    codes = [kind.code for kind in operation.refusals]
    if codes:
        yield f"Errors, besides those of every operation: {', '.join(f'`{code}`' for code in codes)}."
    if fields := _fields_of(operation):
        yield "\n| field | type | default |\n|---|---|---|"
        for field in fields:
            yield f"| `{field.encode_name}` | {_type(schema_of[repr(field.type)])} | {_default(field)} |"


def _table_of(name: str, schema: Schema) -> Iterator[str]:
    yield f"\n### {openapi.bare(name)}\n"
    if said := schema.get("description"):
        yield openapi.uncited(said) + "\n"
    yield "| field | type | default |\n|---|---|---|"
    for field, kind in schema["properties"].items():
        default = "required" if field in schema["required"] else _shown(kind.get("default"))
        yield f"| `{field}` | {_type(kind)} | {default} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default in (msgspec.UNSET, msgspec.NODEFAULT):
        return "–"
    return _shown(msgspec.to_builtins(field.default))


def _shown(default: Any) -> str:
    """A struct's default is that of each of its fields, which its own table has."""
    if default is None or default in ({}, []):
        return "–"
    return "its own defaults" if isinstance(default, dict) else f"`{json.dumps(default)}`"


def _type(schema: Schema) -> str:
    options = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    said = next((one["description"] for one in (schema, *options) if "description" in one), "")
    return (" or ".join(map(_named, options)) + (f"; {openapi.uncited(said)}" if said else "")).replace("|", "\\|")


def _named(schema: Schema) -> str:
    if "$ref" in schema:
        name = openapi.bare(schema["$ref"])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_named(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_named(schema.get('items') or {})}"
    if schema.get("type") == "object":
        keys = ", ".join(f"`{key}`" for key in schema.get("propertyNames", {}).get("enum", ()))
        return f"map{f' of {keys}' if keys else ''} to {_named(schema.get('additionalProperties') or {})}"
    return str(schema.get("type", "any")) + _bounds(schema)


def _bounds(schema: Schema) -> str:
    match schema.get("minimum"), schema.get("maximum"):
        case None, None:
            return ""
        case least, None:
            return f", at least {least}"
        case None, most:
            return f", at most {most}"
        case least, most:
            return f" {least} to {most}"


def events() -> str:
    lines = [HEAD, "# Stored events\n"]
    for prefix, kind in registry.KINDS.items():
        lines.append(f"\n## {kind.noun} (`{prefix}`)\n\n| stored name | fields |\n|---|---|")
        for event in kind.events:
            lines.append(f"| `{event.__struct_config__.tag}` | {_fields(event)} |")
    return "\n".join(lines) + "\n"


def _fields(event: type[Event]) -> str:
    return ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(event)) or "–"


def refusals() -> str:
    lines = [HEAD, "# Errors\n", "| code | HTTP | meaning |\n|---|---|---|"]
    kinds: list[type[errors.Refusal]] = [errors.Refusal]
    for kind in kinds:
        kinds += [sub for sub in kind.__subclasses__() if sub.__module__ in (errors.__name__, problems.__name__)]
    rows = {(kind.code, problems.status_of(kind), _meaning(kind)) for kind in kinds[1:]}
    lines += [f"| `{code}` | {status} | {said} |" for code, status, said in sorted(rows)]
    return "\n".join(lines) + "\n"


def _meaning(kind: type[errors.Refusal]) -> str:
    """Of the tree of errors; what only HTTP refuses says it itself."""
    for line in (errors.__doc__ or "").splitlines():
        words = line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()
        if len(words) > 2 and words[1] == kind.code:
            return " ".join(words[2:])
    return openapi.uncited((kind.__doc__ or "").strip().partition("\n")[0])


def iam() -> str:
    lines = [HEAD, "# IAM resource types\n", "| type | parent | relations | attributes |\n|---|---|---|---|"]
    for declared in catalog.TYPES:
        attributes = ", ".join(f"`{name}`: {kind}" for name, kind in declared.attributes.items()) or "–"
        relations = ", ".join(declared.relations) or "–"
        lines.append(f"| `{declared.name}` | {declared.parent or '–'} | {relations} | {attributes} |")
    lines += ["\n# Actions\n", "| action | decided on |\n|---|---|"]
    for operation in sorted(OPERATIONS.values(), key=lambda one: one.action):
        if operation.on:
            lines.append(f"| `{operation.action}` | {', '.join(f'`{name}`' for name in _decided_on(operation))} |")
    return "\n".join(lines) + "\n"


def _decided_on(operation: Operation) -> list[str]:
    named = {template.partition("/")[0] for template in operation.on}
    fleet = [f"{type_}/{catalog.FLEET_ID}" for type_ in operation.types if type_ not in named]
    return [*operation.on, *fleet]


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()
