"""Filters over the attributes of things: what a list may show, as Better IAM plans it (iam.md §19).

A field is `id`, `parentType`, `parentId` or an attribute's name. A missing field satisfies nothing but the negation
of `exists`; a JSON null is there, and has no type.
"""

from typing import Literal

from msgspec import Struct

Scalar = str | float | bool


class Always(Struct, frozen=True, tag_field="kind", tag="true"):
    pass


class Never(Struct, frozen=True, tag_field="kind", tag="false"):
    pass


class And(Struct, frozen=True, tag_field="kind", tag="and"):
    filters: tuple["Filter", ...]


class Or(Struct, frozen=True, tag_field="kind", tag="or"):
    filters: tuple["Filter", ...]


class Not(Struct, frozen=True, tag_field="kind", tag="not"):
    filter: "Filter"


class Exists(Struct, frozen=True, tag_field="kind", tag="exists"):
    field: str


class Type(Struct, frozen=True, tag_field="kind", tag="type"):
    field: str
    type: Literal["string", "number", "boolean", "ip"]


class Equals(Struct, frozen=True, tag_field="kind", tag="equals", rename="camel", omit_defaults=True):
    field: str
    values: tuple[Scalar, ...]
    ignore_case: bool = False


class Compare(Struct, frozen=True, tag_field="kind", tag="compare"):
    field: str
    operator: Literal["lt", "le", "gt", "ge"]
    value: float


class Like(Struct, frozen=True, tag_field="kind", tag="like", rename="camel", omit_defaults=True):
    """`*` and `?` are wild, a backslash takes the next character as it is; a trailing one is itself."""

    field: str
    pattern: str
    ignore_case: bool = False


class Date(Struct, frozen=True, tag_field="kind", tag="date"):
    field: str
    operator: Literal["before", "after"]
    value: str


class Ip(Struct, frozen=True, tag_field="kind", tag="ip"):
    field: str
    network: str


class Contains(Struct, frozen=True, tag_field="kind", tag="contains"):
    field: str
    value: Scalar


Filter = Always | Never | And | Or | Not | Exists | Type | Equals | Compare | Like | Date | Ip | Contains
