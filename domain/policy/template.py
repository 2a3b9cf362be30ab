"""Variables `${key}` in patterns and expected values (iam.md §3, "Variables")."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from domain.policy import text

Context = Mapping[str, object]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.:-]{0,127})\}")


class Variable(Struct, frozen=True):
    """Stands for the context's value under exactly this flat key."""

    key: str


Template = tuple[str | Variable, ...]


def parse(source: str) -> Template:
    """Splits into literal text and variables; ValueError where a `${` starts none that is well formed."""
    return tuple(_pieces(source))


def _pieces(source: str) -> Iterator[str | Variable]:
    at = 0
    while (start := source.find("${", at)) >= 0:
        found = _VARIABLE.match(source, start)
        if found is None:
            raise ValueError("every ${ must start a variable such as ${principal.id}")
        if start > at:
            yield source[at:start]
        yield Variable(found[1])
        at = found.end()
    if at < len(source):
        yield source[at:]


def keys(template: Template) -> set[str]:
    """The context keys that the template reads."""
    return {piece.key for piece in template if isinstance(piece, Variable)}


def value_of(variable: Variable, context: Context) -> str | None:
    """The text that takes the variable's place, or None: missing, null, a list or an object."""
    value = context.get(variable.key)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    number = text.double(value)
    return None if number is None else text.number_text(number)


def resolve(template: Template, context: Context) -> str | None:
    """The text with every variable replaced, literally and once; None if one stays unresolved."""
    if len(template) == 1 and isinstance(template[0], str):
        return template[0]
    pieces: list[str] = []
    for piece in template:
        resolved = value_of(piece, context) if isinstance(piece, Variable) else piece
        if resolved is None:
            return None
        pieces.append(resolved)
    return text.joined("".join(pieces))
