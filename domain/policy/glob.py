"""Patterns of actions, resources and `*Like*` values (iam.md §3, "Globs").

Anchored at both ends; `*` is any run of characters, `?` one code point, nothing else is special. Two forms:
most patterns have stars at most and are string searches; the others walk tokens, each step metered.
"""

from enum import Enum

from msgspec import Struct

from domain.policy import template, text
from domain.policy.meter import Meter


class Wild(Enum):
    """A token that stands for more than itself."""

    RUN = "*"
    ONE = "?"


Token = str | Wild | template.Variable


class Simple(Struct, frozen=True):
    """A pattern of literal text and stars; `head` alone where there is no star."""

    length: int
    wild: bool
    head: str
    middle: tuple[str, ...]
    tail: str

    def matches(self, value: str, context: template.Context, meter: Meter) -> bool:
        meter.spend(self.length + (len(value) if value.isascii() else text.utf16_length(value)))
        if not self.wild:
            return value == self.head
        if not value.startswith(self.head) or not value.endswith(self.tail):
            return False
        at, end = len(self.head), len(value) - len(self.tail)
        if at > end:
            return False
        for part in self.middle:
            at = value.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    def resolved(self, context: template.Context) -> list[str | Wild]:
        """The tokens, one a character: runs of stars are one."""
        if not self.wild:
            return list(self.head)
        tokens: list[str | Wild] = [*self.head, Wild.RUN]
        for part in self.middle:
            tokens += [*part, Wild.RUN]
        return [*tokens, *self.tail]


class Walked(Struct, frozen=True):
    """A pattern with `?`, variables or astral characters; `lower` matches without regard to case."""

    tokens: tuple[Token, ...]
    lower: bool

    def matches(self, value: str, context: template.Context, meter: Meter) -> bool:
        tokens = self.resolved(context)
        return tokens is not None and _walk(tokens, value, meter)

    def resolved(self, context: template.Context) -> list[str | Wild] | None:
        """The tokens with every variable's text as literal characters: its own stars are ordinary."""
        resolved: list[str | Wild] = []
        for token in self.tokens:
            if not isinstance(token, template.Variable):
                resolved.append(token)
                continue
            value = template.value_of(token, context)
            if value is None:
                return None
            resolved.extend(value.lower() if self.lower and isinstance(context[token.key], str) else value)
        return resolved


Glob = Simple | Walked


def parse(source: str, *, lower: bool = False) -> Glob:
    """Compiles a pattern; ValueError for a malformed variable. `lower` lower-cases variable names as well."""
    pieces = template.parse(source.lower() if lower else source)
    only = pieces[0] if len(pieces) == 1 else "" if not pieces else None
    if isinstance(only, str) and "?" not in only and (not only or max(only) <= "\uffff"):
        head, *rest = only.split("*")
        middle = tuple(part for part in rest[:-1] if part)
        return Simple(len(only), bool(rest), head, middle, rest[-1] if rest else "")
    tokens: list[Token] = []
    for piece in pieces:
        if isinstance(piece, template.Variable):
            tokens.append(piece)
        else:
            tokens.extend(Wild(char) if char in "*?" else char for char in piece)
    return Walked(tuple(tokens), lower)


def keys(glob: Glob) -> set[str]:
    """The context keys that the pattern reads."""
    return set() if isinstance(glob, Simple) else template.keys(_variables(glob))


def _variables(glob: Walked) -> template.Template:
    return tuple(token for token in glob.tokens if isinstance(token, template.Variable))


def _walk(tokens: list[str | Wild], value: str, meter: Meter) -> bool:
    """Greedy matching with one point to come back to, the last star; the budget bounds the worst case."""
    meter.spend(len(value) + len(tokens))
    left, count = meter.left, len(tokens)
    at = token = mark = 0
    star = -1
    while at < len(value):
        left -= 1
        if left < 0:
            break
        current = tokens[token] if token < count else None
        if current is Wild.RUN:
            star, mark = token, at
            token += 1
        elif current is Wild.ONE or (current is not None and current == value[at]):
            token += 1
            at += 1
        elif star >= 0:
            token = star + 1
            mark += 1
            at = mark
        else:
            break
    meter.spend(meter.left - left)
    return at == len(value) and all(rest is Wild.RUN for rest in tokens[token:])
