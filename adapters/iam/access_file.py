"""The embedded directory's file: tenants, identities, roles, boundaries and relationships in TOML.

    [tenants.platform]                    # the one without a parent is the platform itself
    [tenants.acme]
    parent = "platform"
    boundaries = ["h100-only"]            # apply to every tenant below as well

    [identities.alice]
    tenant = "acme"
    roles = ["tenant-user"]               # domain/roles.py, or [roles.<name>] below
    groups = ["hpc"]
    token_sha256 = ["9f86d0…"]            # `better-compute token create` prints token and hash

    [[relationships]]
    tenant = "acme"
    group = "hpc"
    relation = "user"
    type = "compute-pool"
    id = "pool_01j…"

    [boundaries.h100-only]                # a policy document (iam.md §1), as are roles
    version = 1
    statements = [{ effect = "allow", actions = ["*"], resources = ["*"] }]

The whole file is checked before any of it counts: a mistake raises AccessFileError, which says where and what
would be right.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from adapters.iam import access_checks as checks
from adapters.iam import access_lines
from adapters.iam.access_checks import Delegation, Identity, Relationship
from domain import policy, roles
from domain.access import Tenant

T = TypeVar("T", bound=Struct)

_SECTIONS = ("tenants", "identities", "roles", "boundaries", "relationships", "delegations")


class AccessFileError(Exception):
    """A mistake in the file: `path` as `identities.alice.roles[0]`, `line` from 1 where it can be told."""

    def __init__(self, path: str, message: str, line: int | None = None) -> None:
        where = f"line {line}: " if line else ""
        super().__init__(f"{where}{path}: {message}" if path else f"{where}{message}")
        self.path = path
        self.message = message
        self.line = line


class AccessFile(Struct, frozen=True):
    """A whole and valid file; `digest` is the SHA-256 hex of its bytes. Roles include those built in."""

    digest: str
    root: str
    tenants: Mapping[str, Tenant]
    tenant_boundaries: Mapping[str, tuple[str, ...]]
    identities: Mapping[str, Identity]
    delegations: Mapping[str, Delegation]
    roles: Mapping[str, policy.Compiled]
    boundaries: Mapping[str, policy.Compiled]
    relationships: tuple[Relationship, ...]


def parse(data: bytes, actions: Collection[str] | None = None) -> AccessFile:
    """Reads and checks a file's bytes. With `actions`, exact action names must be among them (iam.md §7)."""
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise AccessFileError("", f"is not UTF-8 text: {error.reason}") from None
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise AccessFileError("", f"is not TOML: {error}", int(at[1]) if at else None) from None
    except RecursionError:
        raise AccessFileError("", "is nested too deeply") from None
    try:
        return _build(document, sha256(data).hexdigest(), actions)
    except checks.Mistake as mistake:
        raise AccessFileError(mistake.path, mistake.message, access_lines.line_of(text, mistake.path)) from None


def _build(document: dict[str, Any], digest: str, actions: Collection[str] | None) -> AccessFile:
    for section in document:
        if section not in _SECTIONS:
            raise checks.Mistake(section, f"is no section; the sections are {', '.join(_SECTIONS)}")
    tenants = _read(document, "tenants", checks.TenantEntry)
    root = checks.tree(tenants)
    boundaries = _policies(document, "boundaries", actions)
    own_roles = _policies(document, "roles", actions)
    for name in own_roles:
        if name in roles.BY_NAME:
            raise checks.Mistake(f"roles.{name}", "is a built-in role; give yours another name")
    held = {**roles.COMPILED, **own_roles}
    for name, entry in tenants.items():
        checks.names(f"tenants.{name}.boundaries", entry.boundaries, boundaries, "boundary")
    identities = _read(document, "identities", Identity)
    delegations = _read(document, "delegations", Delegation)
    checks.identities(identities, tenants, root, held, boundaries)
    checks.delegations(delegations, identities, boundaries)
    checks.tokens(identities, delegations)
    relationships = _rows(document, "relationships", Relationship)
    checks.relationships(relationships, tenants, identities)
    return AccessFile(
        digest=digest,
        root=root,
        tenants={name: _tenant(name, entry) for name, entry in tenants.items()},
        tenant_boundaries={name: entry.boundaries for name, entry in tenants.items()},
        identities=identities,
        delegations=delegations,
        roles=held,
        boundaries=boundaries,
        relationships=relationships,
    )


def _tenant(name: str, entry: checks.TenantEntry) -> Tenant:
    kind = entry.type or ("organization" if entry.parent else "root")
    return Tenant(name, entry.parent, entry.status, kind)


def _read(document: dict[str, Any], section: str, shape: type[T]) -> dict[str, T]:
    entries = _table(document, section)
    for name in entries:
        if not checks.ID.fullmatch(name):
            raise checks.Mistake(f"{section}.{name}", "must be 1 to 128 printable characters without spaces")
    return {name: _convert(entry, f"{section}.{name}", shape) for name, entry in entries.items()}


def _rows(document: dict[str, Any], section: str, shape: type[T]) -> tuple[T, ...]:
    rows = document.get(section, [])
    if not isinstance(rows, list):
        raise checks.Mistake(section, f"must be written as [[{section}]]")
    return tuple(_convert(row, f"{section}[{index}]", shape) for index, row in enumerate(rows))


def _table(document: dict[str, Any], section: str) -> dict[str, Any]:
    entries = document.get(section, {})
    if not isinstance(entries, dict):
        raise checks.Mistake(section, f"must be written as [{section}.<name>]")
    return entries


def _convert(entry: object, path: str, shape: type[T]) -> T:
    """One table as a struct; msgspec's path inside it is joined to where the table stands."""
    try:
        return msgspec.convert(entry, shape)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        inner = inner.rstrip("`")
        raise checks.Mistake(path + inner, f"{message}; {_remedy(shape, inner)}") from None


def _remedy(shape: type[Struct], inner: str) -> str:
    """What is right at a place of a table: the values of a field that has few, else the table's fields."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(shape)}
    if get_origin(fields.get(inner.lstrip("."))) is Literal:
        return f"it is one of {', '.join(get_args(fields[inner.lstrip('.')]))}"
    return f"the fields are {', '.join(fields)}"


def _policies(document: dict[str, Any], section: str, actions: Collection[str] | None) -> dict[str, policy.Compiled]:
    found: dict[str, policy.Compiled] = {}
    for name, entry in _table(document, section).items():
        path = f"{section}.{name}"
        try:
            found[name] = policy.validate(entry)
        except policy.InvalidPolicy as error:
            inside = error.field.removeprefix("document").removeprefix(".")
            raise checks.Mistake(f"{path}.{inside}" if inside else path, error.message) from None
        checks.vocabulary(path, entry, actions)
    return found
