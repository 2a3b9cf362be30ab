"""Writes docs/reference/ from the registries, so that it cannot say what the program does not (`make docs`)."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from adapters.http import problems
from adapters.registry import OPERATIONS
from domain import catalog, errors, registry
from domain.event import Event
from domain.operation import Operation

HEAD = "<!-- written by `make docs`; a test compares it with the program -->\n"


def pages() -> dict[str, str]:
    """File name to text."""
    return {
        "operations.md": operations(),
        "events.md": events(),
        "errors.md": refusals(),
        "iam.md": iam(),
    }


def operations() -> str:
    lines = [HEAD, "# Operations\n"]
    groups: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        groups.setdefault(operation.name.split(".")[0], []).append(operation)
    for group, members in groups.items():
        lines.append(f"\n## {group}\n")
        for operation in members:
            lines += _operation(operation)
    return "\n".join(lines) + "\n"


def _operation(operation: Operation) -> Iterator[str]:
    yield f"\n### {operation.name}\n"
    yield f"`{operation.verb} {operation.path}` — {operation.summary}.\n"
    decided = ", ".join(f"`{name}`" for name in operation.on) or "the join token"
    yield f"Decided as `{operation.action}` on {decided}."
    if operation.key != "none":
        yield f"`Idempotency-Key` is {operation.key}."
    codes = [kind.code for kind in operation.refusals]
    if codes:
        yield f"Refusals beside the usual: {', '.join(f'`{code}`' for code in codes)}."
    fields = [f for f in msgspec.structs.fields(operation.request) if f.encode_name not in operation.path_fields]
    if fields:
        yield "\n| field | type | default |\n|---|---|---|"
        for field in fields:
            yield f"| `{field.encode_name}` | {_type(field.type)} | {_default(field)} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.UNSET or field.default is None:
        return "–"
    if field.default is msgspec.NODEFAULT:
        return "–"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def _type(kind: Any) -> str:
    schema = msgspec.json.schema(kind)
    return _named(schema).replace("|", "\\|")


def _named(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in schema:
        return " or ".join(_named(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_named(schema.get('items') or {})}"
    if schema.get("type") == "object":
        return f"map to {_named(schema.get('additionalProperties') or {})}"
    bounds = [str(schema[bound]) for bound in ("minimum", "maximum") if bound in schema]
    return str(schema.get("type", "any")) + (f" {' to '.join(bounds)}" if bounds else "")


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
        kinds += [sub for sub in kind.__subclasses__() if sub.__module__ == "domain.errors"]
    rows = {(kind.code, problems.STATUS.get(kind.code, 409), _first_line(kind)) for kind in kinds[1:]}
    lines += [f"| `{code}` | {status} | {said} |" for code, status, said in sorted(rows)]
    return "\n".join(lines) + "\n"


def _first_line(kind: type[errors.Refusal]) -> str:
    for line in (errors.__doc__ or "").splitlines():
        words = line.replace("│", " ").replace("├──", " ").replace("└──", " ").split()
        if len(words) > 2 and words[1] == kind.code:
            return " ".join(words[2:])
    return ((kind.__doc__ or "").strip().splitlines() or [""])[0]


def iam() -> str:
    lines = [HEAD, "# IAM resource types\n", "| type | parent | relations | attributes |\n|---|---|---|---|"]
    for declared in catalog.TYPES:
        attributes = ", ".join(f"`{name}`: {kind}" for name, kind in declared.attributes.items()) or "–"
        relations = ", ".join(declared.relations) or "–"
        lines.append(f"| `{declared.name}` | {declared.parent or '–'} | {relations} | {attributes} |")
    lines += ["\n# Actions\n", "| action | decided on |\n|---|---|"]
    for operation in sorted(OPERATIONS.values(), key=lambda one: one.action):
        if operation.on:
            lines.append(f"| `{operation.action}` | {', '.join(f'`{name}`' for name in operation.on)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()
