"""Filters over the attributes of things: what a list may show, as Better IAM plans it (iam.md §19).

A field is `id`, `parentType`, `parentId` or an attribute's name. A missing field satisfies nothing but the negation
of `exists`; a JSON null is there, and has no type.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from domain.policy.glob import Wild

Scalar = str | float | bool


class Always(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="true"):
    pass


class Never(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="false"):
    pass


class And(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="and"):
    filters: tuple["Filter", ...]


class Or(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="or"):
    filters: tuple["Filter", ...]


class Not(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="not"):
    filter: "Filter"


class Exists(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="exists"):
    field: str


class Type(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="type"):
    field: str
    type: Literal["string", "number", "boolean", "ip"]


class Equals(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="equals", rename="camel", omit_defaults=True
):
    field: str
    values: tuple[Scalar, ...]
    ignore_case: bool = False


class Compare(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="compare"):
    field: str
    operator: Literal["lt", "le", "gt", "ge"]
    value: float


class Like(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="like", rename="camel", omit_defaults=True
):
    """`*` and `?` are wild, a backslash takes the next character as it is; a trailing one is itself."""

    field: str
    pattern: str
    ignore_case: bool = False


class Date(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="date"):
    field: str
    operator: Literal["before", "after"]
    value: str


class Ip(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="ip"):
    field: str
    network: str


class Contains(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="contains"):
    field: str
    value: Scalar


Filter = Always | Never | And | Or | Not | Exists | Type | Equals | Compare | Like | Date | Ip | Contains


def tokens(pattern: str) -> list[str | Wild]:
    """What a `like` pattern stands for: literal characters one by one, and wildcards."""
    found: list[str | Wild] = []
    literal = False
    for at, char in enumerate(pattern):
        if not literal and char == "\\" and at + 1 < len(pattern):
            literal = True
            continue
        found.append(Wild(char) if char in "*?" and not literal else char)
        literal = False
    return found


def pattern(tokens: Iterable[str | Wild]) -> str:
    """The `like` pattern that says this; the way back from `tokens`."""
    return "".join(
        token.value if isinstance(token, Wild) else f"\\{token}" if token in "*?\\" else token for token in tokens
    )
