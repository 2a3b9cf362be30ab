r"""Text that others wrote, as people may see it: nothing in it steers a terminal, turns its line around or hides.

What is not printable is shown as its escape (ESC as `\x1b`; also C1, line ends, bidi overrides), and so are marks
that would be piled on one letter until they paint over the lines around it.
"""

import unicodedata
from typing import Final

PILED: Final = 4
"""Marks on one letter; no living script needs more."""


def legible(text: str, kept: str = "") -> str:
    """`kept` are letters that do no harm where the text goes."""
    if text.isprintable() and text.isascii():
        return text
    shown: list[str] = []
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        plain = (letter.isprintable() or letter in kept) and marks <= PILED
        shown.append(letter if plain else escaped(letter))
    return "".join(shown)


def escaped(letter: str) -> str:
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
