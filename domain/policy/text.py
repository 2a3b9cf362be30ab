"""Strings and numbers as JavaScript sees them, because Better IAM's limits and text forms are its own."""

import re
from math import inf, isfinite

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def utf16_length(text: str) -> int:
    """Counts UTF-16 code units: an astral character counts two (iam.md §1)."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def joined(text: str) -> str:
    """Joins surrogate pairs that concatenation brought together, as a UTF-16 string would by itself."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def has_control(text: str) -> bool:
    """U+0000-U+001F and U+007F only: C1 controls and odd spaces are legal (iam.md §1)."""
    return _CONTROL.search(text) is not None


def double(value: object) -> float | None:
    """A JSON number as an IEEE double, infinity beyond its range; None for anything else, booleans too."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def finite(value: object) -> float | None:
    """A finite JSON number as a double, else None (iam.md §2, "Numbers")."""
    number = double(value)
    return number if number is not None and isfinite(number) else None


def number_text(number: float) -> str:
    """The shortest text of a double in the form of ECMA-262 `Number::toString` (iam.md §3, "Variables")."""
    if not isfinite(number):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    digits, point = _decimal(abs(number))
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _decimal(number: float) -> tuple[str, int]:
    """The shortest digits d and the point n with number = 0.d * 10**n."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = whole + fraction
    digits = written.lstrip("0")
    return digits.rstrip("0"), len(whole) + int(exponent or "0") - (len(written) - len(digits))
