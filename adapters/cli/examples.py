"""An example line for every operation: its required fields with values that make sense, and what it declares beside.

A test asks each of them of click, as far as the request that would be sent.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import inspect

from adapters.cli import fields, instants, waiting
from adapters.cli.main import kebab
from domain.operation import Operation

FILES: Final = {
    "nodes.join": "join.json",
    "imageSigners.set": "signers.json",
}
"""Operations whose request is longer than a line; it is read from such a file."""

IDS: Final = {
    "sites": "site",
    "pools": "pool",
    "projects": "prj",
    "flavors": "flv",
    "images": "img",
    "instances": "inst",
    "joinTokens": "jt",
    "nodes": "node",
    "commands": "cmd",
    "reservations": "rsv",
    "extensions": "ext",
}
"""What the id of a noun's thing begins with."""

VALUES: Final[Mapping[str, Any]] = {
    "class": "metal-host",
    "devices": [{"class": "gpu", "count": 8}],
    "diskGiB": 20,
    "durationSeconds": 3600,
    "endsAt": 1_796_104_800_000,
    "flavorId": "flv_…",
    "gpuHours": 1000,
    "gpuMemoryGb": 80,
    "gpuModel": "H100",
    "iamRegion": "eu-north",
    "imageId": "img_…",
    "imageVersion": "24.04",
    "labels": {"rack": "north-0"},
    "limits": {"gpu": 64},
    "memoryGiB": 4,
    "nodeId": "node_…",
    "poolId": "pool_…",
    "quota": {"gpu": 64},
    "reason": "fan 2 is loud",
    "reservationId": "rsv_…",
    "sha256": "9f86d081…",
    "signature": "MEUCIQ…",
    "siteId": "site_…",
    "sizeBytes": 2_361_393_152,
    "tenantId": "acme",
    "trust": "platform",
    "vcpu": 2,
    "commands.issue.id": "node_…",
    "commands.issue.name": "inspect",
    "flavors.create.name": "small",
    "iam.resolve.id": "node_…",
    "iam.resolve.type": "compute-node",
    "images.create.format": "qcow2",
    "images.create.name": "ubuntu",
    "instances.create.name": "web",
    "leases.proceed.name": "singleton:reservations",
    "pools.create.name": "h100",
    "projects.create.name": "research",
    "sites.create.kind": "shared",
    "sites.create.name": "north",
}
"""Of required fields by their name, or by their operation and name; what is not here is a choice or a switch."""

WIDTH: Final = 76
"""Of a line at most, beside the indentation of the help."""

_PLAIN: Final = re.compile(r"[\w@%+=:,./…-]+")


def request(operation: Operation) -> dict[str, Any]:
    """What the example asks, in the words of the API."""
    known = fields.of(operation).values()
    return {f.encode_name: _value(operation, f) for f in known if f.required} | dict(operation.example)


def words(operation: Operation) -> list[str]:
    """The example as the words of a command line, without the program's name; one value for each field."""
    noun, _, verb = operation.name.partition(".")
    asked, known = request(operation), fields.of(operation)
    in_path = fields.path_names(operation)
    line = [kebab(noun), kebab(verb.replace(".", "-"))]
    line += [str(asked[known[name].encode_name]) for name in in_path]
    if operation.content is not None:
        line.append("ubuntu.qcow2")
    if operation.name in FILES:
        return [*line, "--json-body", FILES[operation.name]]
    for name, field in known.items():
        if name not in in_path and field.encode_name in asked:
            line += _option(field, asked[field.encode_name])
    return [*line, "--wait"] if operation.name in waiting.WAITS and not operation.in_url else line


def line(operation: Operation, verb: str | None = None) -> str:
    """The example as one types it; `verb` is what it is called where it bears another name."""
    typed = words(operation)
    if verb is not None:
        typed[1] = verb
    quoted = [word if _PLAIN.fullmatch(word) else f"'{word}'" for word in typed]
    return wrapped(" ".join(["better-compute", *quoted]))


def wrapped(line: str) -> str:
    """A line in as many as a narrow terminal needs, broken before an option as a shell takes it."""
    first, *rest = line.split(" --")
    lines = [first]
    for option in rest:
        if len(lines[-1]) + len(option) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"    --{option}")
        else:
            lines[-1] += f" --{option}"
    return "\n".join(lines)


def _value(operation: Operation, field: inspect.Field) -> Any:
    name, noun = field.encode_name, operation.name.partition(".")[0]
    for known in (f"{operation.name}.{name}", name):
        if known in VALUES:
            return VALUES[known]
    if name == "id":
        of_tenant = "kind" in operation.path_fields
        return "acme" if of_tenant else f"{IDS.get(noun, 'rsv')}_…"
    if name == "kind":
        return "tenant"
    match fields.kinds_of(field.type):
        case [inspect.LiteralType(values=choices)]:
            return choices[-1]
        case [inspect.BoolType()]:
            return True
        case _ if operation.name in FILES or name in operation.example:
            return None
        case _:
            raise LookupError(f"{operation.name}: no example of {name}; add one to VALUES, or declare it")


def _option(field: inspect.Field, value: Any) -> list[str]:
    name = fields.flag(field)
    match value:
        case bool():
            return [name if value else f"--no-{name[2:]}"]
        case list():
            return [word for item in value for word in (name, _piece(item))]
        case dict():
            return [word for key, below in value.items() for word in (name, f"{key}={below}")]
        case int() if isinstance(fields.option(field).type, instants.Instant):
            return [name, datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")]
        case _:
            return [name, str(value)]


def _piece(item: Any) -> str:
    return f"{item['class']}={item['count']}" if isinstance(item, dict) else str(item)
