"""What stands in an attribute or an area of a form goes as it is, since a form sends it back; other text is read."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup

_MARK: Final = re.compile(r"<[A-Za-z/][^\s>\"']*|>|\"|'")
_AREA: Final = "<textarea"
_AREAS_END: Final = "</textarea"


class Exact(str):
    """A text that is shown as it is, letter by letter."""

    __slots__ = ()


def exact(value: Any) -> Any:
    return Exact(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class AttributesAsTheyAre(Extension):
    """`<input value="{{ x }}">` is compiled as `<input value="{{ (x) | exact }}">`, wherever it stands."""

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        place, wrapped = _Place(), False
        for token in stream:
            if token.type == "data":
                place.goes_over(token.value)
            if token.type == "variable_end" and wrapped:
                yield from _told(token.lineno, ("rparen", ")"), ("pipe", "|"), ("name", "exact"))
                wrapped = False
            yield token
            if token.type == "variable_begin" and place.ends_at:
                yield from _told(token.lineno, ("lparen", "("))
                wrapped = True


def _told(line: int, *tokens: tuple[str, str]) -> Iterator[Token]:
    yield from (Token(line, kind, value) for kind, value in tokens)


class _Place:
    """Where in a page one is; `ends_at` is what ends the value that one is in, empty outside of values."""

    def __init__(self) -> None:
        self.ends_at = ""
        self._tag = ""

    def goes_over(self, text: str) -> None:
        for mark in _MARK.findall(text):
            if self.ends_at:
                if mark == self.ends_at:
                    self.ends_at, self._tag = "", mark if mark == _AREAS_END else self._tag
            elif mark in ('"', "'"):
                self.ends_at = mark if self._tag else ""
            elif mark == ">":
                self.ends_at, self._tag = _AREAS_END if self._tag == _AREA else "", ""
            else:
                self._tag = mark
