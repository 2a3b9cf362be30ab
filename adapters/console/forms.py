"""What a form says, as the JSON that the API takes: `devices[0].count=8`, `durationSeconds=8h`, dates as instants."""

import base64
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from adapters import instant_names
from domain import errors

DEEPEST: Final = 16
"""Steps of one field's name."""

_NAME: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9]*((\.[A-Za-z][A-Za-z0-9]*)|(\[[0-9]{1,2}\])|(\{[A-Za-z.]*\})|(\[\]))*(:(base64|null|empty|day|lines))?"
)
_STEP: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*|\[[0-9]+\]|\{[A-Za-z.]+\}")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?")
_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) *([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def document(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Of names that begin with a letter; what was left empty is left out.

    `x[]` is a list in one field, by commas; `x{}` a map, a line `key=value` for each member, `x{a.b}` one member of it.
    What its name says is an instant (`endsAt`) or a span (`durationSeconds`) may be written as people write one.
    `x[]:lines` is a list whose members may have commas, one a line.
    `x:base64` is text that goes as base64, `x:day` a date that goes as its beginning; `x:null` and `x:empty` are null
    and {}, whatever they hold.
    Raises Malformed.
    """
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name.startswith("_") or not value.strip():
            continue
        if not _NAME.fullmatch(name):
            raise errors.Malformed(f"{name[:80]!r} is no field of a form")
        _put(found, name, value)
    made = _lists(found)
    assert isinstance(made, dict)
    return made


def _put(found: dict[Any, Any], name: str, value: str) -> None:
    bare, _, as_ = name.partition(":")
    steps = [_step(step) for step in _STEP.findall(bare.removesuffix("[]").removesuffix("{}"))]
    if len(steps) > DEEPEST:
        raise errors.Malformed(f"{name[:80]!r} is no field of a form")
    here = found
    for step in steps[:-1]:
        below = here.setdefault(step, {})
        if not isinstance(below, dict):
            raise errors.Malformed(f"{name!r} is below a field that has a value")
        here = below
    if steps[-1] in here:
        raise errors.Malformed(f"the field {name!r} came twice")
    here[steps[-1]] = _said(bare, as_, value) if as_ else _value(name, str(steps[-1]), value)


def _step(text: str) -> int | str:
    return int(text[1:-1]) if text[0] == "[" else text.strip("{}")


def _said(name: str, as_: str, value: str) -> Any:
    if as_ == "base64":
        return base64.b64encode(value.replace("\r\n", "\n").encode()).decode()
    if as_ == "lines":
        return [line.strip() for line in value.splitlines() if line.strip()]
    if as_ == "day":
        return day(name, value)
    return None if as_ == "null" else {}


def _value(name: str, last: str, value: str) -> Any:
    if name.endswith("[]"):
        return [part.strip() for part in value.replace("\n", ",").split(",") if part.strip()]
    if name.endswith("{}"):
        return dict(_member(name, line) for line in value.splitlines() if line.strip())
    text = value.strip()
    if name.endswith("}"):
        return text
    if instant_names.holds(last) and _INSTANT.fullmatch(text):
        return instant(text)
    return _seconds(text) if last.endswith("Seconds") else text


def _seconds(text: str) -> int | str:
    """Of `90m`, `1.5h`, `1d 12h`; what is no span stays as it is."""
    pieces = _SPAN.findall(text)
    if not pieces or _SPAN.sub("", text).strip():
        return text
    return int(sum(float(number) * _SECONDS[unit] for number, unit in pieces))


def _member(name: str, line: str) -> tuple[str, str]:
    key, sign, value = line.partition("=")
    if not sign:
        raise errors.Invalid(name.removesuffix("{}"), f"{line.strip()[:80]!r} is no key=value")
    return key.strip(), value.strip()


def lines(members: Mapping[str, str]) -> str | None:
    """A map as the form's lines; None of one that would come back as another."""
    text = "\n".join(f"{key}={value}" for key, value in members.items())
    try:
        back = dict(_member("", line) for line in text.splitlines() if line.strip())
    except errors.Invalid:
        return None
    return text if back == members else None


def instant(text: str, name: str = "instant") -> int:
    """Epoch milliseconds of a date and time: in the zone that it names, else in UTC, as every page shows them."""
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise errors.Invalid(name, f"{text[:80]!r} is no date and time") from None


def day(name: str, text: str) -> int:
    """Epoch milliseconds of the beginning of a day in UTC."""
    try:
        return instant(f"{date.fromisoformat(text.strip()).isoformat()}T00:00")
    except ValueError:
        raise errors.Invalid(name, f"{text[:80]!r} is no date, such as 2026-12-31") from None


def _lists(value: Any) -> Any:
    """Members numbered from anywhere become a list in their order: a row that was taken out of a form leaves a hole."""
    if not isinstance(value, dict):
        return value
    made = {key: _lists(member) for key, member in value.items()}
    if made and all(isinstance(key, int) for key in made):
        return [made[key] for key in sorted(made)]
    if any(isinstance(key, int) for key in made):
        raise errors.Malformed("a field of the form is a list and an object at once")
    return made
