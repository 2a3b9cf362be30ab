"""The OpenAPI 3.1 document of the registry.

Litestar's own generator says neither `additionalProperties: false` nor `discriminator` (ecosystem.md §1.2),
and it knows nothing of IAM actions and refusals; msgspec and the declarations know all of it.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib import metadata
from typing import Any, Final

import msgspec

from domain import errors
from domain.operation import ALWAYS, Operation, Reading

from . import problems
from .decode import INT64, Shape
from .lines import MEDIA_TYPE

Json = dict[str, Any]

_CITED: Final = re.compile(r" ?\([a-z]+\.md[^)]*\)")
_REF: Final = "#/components/schemas/{name}"
_HEADERS: Final[Json] = {
    "X-Request-Id": {
        "description": "the id of this request, as in the log and the admission record",
        "schema": {"type": "string"},
    },
    "X-Position": {
        "description": "position in the log: of the command's last event, or what a query shows",
        "schema": {"type": "integer", "minimum": 0},
    },
    "ETag": {
        "description": "the version of the thing, for If-Match and If-None-Match",
        "schema": {"type": "string"},
    },
    "Idempotency-Replayed": {
        "description": "present and true when this repeats an earlier answer",
        "schema": {"type": "string", "const": "true"},
    },
    "Location": {"description": "where the thing made is found", "schema": {"type": "string"}},
    "Retry-After": {
        "description": "seconds until it makes sense to try again",
        "schema": {"type": "integer"},
    },
    "WWW-Authenticate": {"description": "how to authenticate", "schema": {"type": "string"}},
}
_MEDIA: Final = {None: "application/json", "events": "text/event-stream", "lines": MEDIA_TYPE.decode()}
_PARAMETERS: Final[Json] = {
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "an id of your own, 1 to 128 of [A-Za-z0-9._:-]; another is replaced. Echoed and kept",
        "schema": {"type": "string"},
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "description": "carry this out only on this version, as an ETag showed it",
        "schema": {"type": "string", "pattern": '^(\\*|"[0-9]{1,18}")$'},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "answer 304 if this is still so",
        "schema": {"type": "string"},
    },
}
_EXAMPLES: Final[Json] = {
    "reservations.create": {
        "poolId": "pool_01m8mae4xcnm3fz16dkpe00gay",
        "devices": [{"class": "gpu", "count": 8}],
        "durationSeconds": 3600,
    },
}
"""A request to start from, by operation."""
_SECURITY: Final = {"session": "bearer", "join-token": "joinToken", "resolver": "resolverKey"}
_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the same key and body again give the first answer again",
    "schema": {"type": "string", "pattern": "^[ -~]{1,255}$"},
}


def encoded(operations: Mapping[str, Operation]) -> bytes:
    return msgspec.json.encode(document(operations))


def document(operations: Mapping[str, Operation]) -> Json:
    """The whole document; two calls give the same."""
    declared = sorted(operations.values(), key=lambda operation: (operation.path, operation.verb))
    writers = [_Writer(operation) for operation in declared]
    wanted = [kind for writer in writers for kind in writer.types]
    schemas, components = _renamed(
        *msgspec.json.schema_components([*wanted, problems.Problem], schema_hook=lambda _: {}, ref_template=_REF)
    )
    _bound_integers([schemas, components])
    found = iter(schemas)
    paths: Json = {}
    for writer in writers:
        mine = [next(found) for _ in writer.types]
        paths.setdefault(writer.operation.path, {})[writer.operation.verb.lower()] = writer.write(mine, components)
    groups = sorted({_group(operation) for operation in declared})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Better Compute",
            "version": _version(),
            "description": "The control plane of a GPU cloud.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": group} for group in groups],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "headers": _HEADERS,
            "parameters": _PARAMETERS,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a session's or API key's token",
                },
                "joinToken": {"type": "http", "scheme": "bearer", "description": "the join token of a node"},
                "resolverKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the key that the server and its Better IAM host share",
                },
            },
        },
    }


class _Writer:
    """One operation: which schemas it needs, and its entry once they are there."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._shape = Shape(operation)
        self._fields = {field.encode_name: field for field in msgspec.structs.fields(operation.request)}
        self._in_url = list(self._shape.path.values()) + (list(self._shape.rest) if operation.in_url else [])
        self._has_body = not operation.in_url and bool(self._shape.rest)
        self.types: list[Any] = [self._shape.types[name] for name in self._in_url]
        self.types.append(operation.response)
        if self._has_body:
            self.types.append(operation.request)

    def write(self, schemas: list[Json], components: Json) -> Json:
        operation = self.operation
        entry: Json = {
            "operationId": operation.name,
            "summary": operation.summary,
            "tags": [_group(operation)],
            "x-iam-action": operation.action,
            "x-iam-resource": list(operation.on),
            "security": [{_SECURITY[operation.credential]: []}],
            "parameters": self._parameters(schemas),
        }
        if self._has_body:
            entry["requestBody"] = self._body(schemas[-1], components)
        if operation.content is not None:
            entry["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
        entry["responses"] = self._responses(schemas[len(self._in_url)])
        return entry

    def _parameters(self, schemas: list[Json]) -> list[Json]:
        operation = self.operation
        spelt = {name: placeholder for placeholder, name in self._shape.path.items()}
        found = [
            self._in_path_or_query(name, spelt.get(name), schema)
            for name, schema in zip(self._in_url, schemas, strict=False)
        ]
        found.append({"$ref": "#/components/parameters/RequestId"})
        if not operation.looks:
            found.append({"$ref": f"#/components/parameters/{'IfNoneMatch' if operation.in_url else 'IfMatch'}"})
        if operation.key != "none":
            found.append(_KEY | {"required": operation.key == "required"})
        return found

    def _in_path_or_query(self, name: str, placeholder: str | None, schema: Json) -> Json:
        schema = _without_null(schema)
        if placeholder is not None:
            return {"name": placeholder, "in": "path", "required": True, "schema": schema}
        field = self._fields[name]
        found: Json = {"name": name, "in": "query", "required": field.required, "schema": schema}
        if not field.required and isinstance(field.default, str | int | float):
            found["schema"] = schema | {"default": field.default}
        if name in self._shape.listed:
            found |= {"style": "form", "explode": False}
        return found

    def _body(self, schema: Json, components: Json) -> Json:
        """The request without what comes from the path."""
        name = schema["$ref"].rpartition("/")[2]
        component = dict(components[name])
        in_path = set(self._shape.path.values())
        component["properties"] = {key: value for key, value in component["properties"].items() if key not in in_path}
        component["required"] = [key for key in component.get("required", ()) if key not in in_path]
        components[name] = component
        content: Json = {"schema": schema}
        if self.operation.name in _EXAMPLES:
            content["example"] = _EXAMPLES[self.operation.name]
        return {"required": bool(component["required"]), "content": {"application/json": content}}

    def _responses(self, schema: Json) -> Json:
        operation = self.operation
        headers = ["X-Request-Id", "X-Position"] if operation.looks else ["X-Request-Id", "X-Position", "ETag"]
        if operation.key != "none":
            headers.append("Idempotency-Replayed")
        if operation.status == 201:
            headers.append("Location")
        success: Json = {"description": HTTPStatus(operation.status).phrase, "headers": _refs(headers)}
        if operation.status != 204:
            media = _MEDIA[operation.streaming]
            success["content"] = {media: {"schema": _event_of(schema) if operation.streaming == "events" else schema}}
        found: Json = {str(operation.status): success}
        if operation.in_url:
            found["304"] = {"description": "Not Modified", "headers": _refs(["X-Request-Id", "ETag"])}
        for status, codes in sorted(_codes(operation, self._has_body).items()):
            found[str(status)] = _problem(status, sorted(codes))
        return found


def _event_of(schema: Json) -> Json:
    """One server-sent event, as OpenAPI describes them: `data` is text that holds JSON."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}}


def _codes(operation: Operation, has_body: bool) -> dict[int, set[str]]:
    """Status to codes: what is declared, and what the house adds to operations of this kind."""
    kinds: set[type[errors.Refusal]] = {*ALWAYS, *operation.refusals}
    if operation.credential == "session":
        kinds.add(errors.AccessDenied)
    if operation.path_fields:
        kinds.add(errors.NotFound)
    if not operation.in_url:
        kinds |= {problems.TooLarge, problems.UnsupportedMediaType}
    if not operation.is_query:
        kinds.add(errors.StaleVersion)
    if operation.key != "none":
        kinds.add(errors.KeyReused)
    if issubclass(operation.request, Reading):
        kinds.add(errors.ProjectionBehind)
    found: dict[int, set[str]] = {}
    for kind in kinds:
        found.setdefault(problems.status_of(kind), set()).add(kind.code)
    return found


def _problem(status: int, codes: list[str]) -> Json:
    headers = ["X-Request-Id"]
    if status in (429, 503):
        headers.append("Retry-After")
    elif status == 401:
        headers.append("WWW-Authenticate")
    schema = {"allOf": [{"$ref": _REF.format(name="Problem")}, {"properties": {"code": {"enum": codes}}}]}
    return {
        "description": ", ".join(codes),
        "headers": _refs(headers),
        "content": {problems.MEDIA_TYPE.decode(): {"schema": schema}},
    }


def _refs(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _without_null(schema: Json) -> Json:
    """A URL has no null: leaving the parameter out says it."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if not options:
        return schema
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return others | (options[0] if len(options) == 1 else {"anyOf": options})


def _renamed(schemas: Iterable[Json], components: Json) -> tuple[list[Json], Json]:
    """Names without our module paths: `commands.pools.Create` is PoolsCreate, a page is named after its items."""
    names = {name: bare(name) for name in components}
    for name, schema in components.items():
        if "Page_" in name or name.endswith(".Page"):
            item = schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
            names[name] = f"{names[item]}Page"
    if len(set(names.values())) != len(names):
        raise ValueError(f"two components would have one name: {sorted(names.values())}")
    references = {_REF.format(name=name): _REF.format(name=bare) for name, bare in names.items()}
    renamed = {names[name]: _referring(schema, references) for name, schema in components.items()}
    return [_referring(schema, references) for schema in schemas], renamed


def bare(name: str) -> str:
    """The last of the module's names is the noun: `domain.pool.View` is PoolView."""
    path, _, last = name.rpartition(".")
    noun = "".join(part.capitalize() for part in path.rpartition(".")[2].split("_"))
    return noun if noun.endswith(last) else noun + last


def uncited(text: str) -> str:
    """Without the design pages that comments of the code name as their source: readers do not have them."""
    return _CITED.sub("", text)


def _referring(value: Any, references: Mapping[str, str]) -> Any:
    match value:
        case {"description": str(said), **others}:
            return {"description": uncited(said)} | {k: _referring(v, references) for k, v in others.items()}
        case dict():
            return {key: _referring(member, references) for key, member in value.items()}
        case list() | tuple():
            return [_referring(member, references) for member in value]
        case str():
            return references.get(value, value)
        case _:
            return value


def _bound_integers(value: Any) -> None:
    """Say of every integer that it has 64 bits: what is longer is refused (decode.py)."""
    if isinstance(value, dict):
        if value.get("type") == "integer":
            value["format"] = "int64"
            if "exclusiveMinimum" not in value:
                value.setdefault("minimum", INT64.start)
            if "exclusiveMaximum" not in value:
                value.setdefault("maximum", INT64.stop - 1)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for member in value:
            _bound_integers(member)


def _group(operation: Operation) -> str:
    return operation.name.partition(".")[0]


def _version() -> str:
    try:
        return metadata.version("better-compute")
    except metadata.PackageNotFoundError:
        return "0"
