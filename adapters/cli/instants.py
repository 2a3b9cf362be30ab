"""Instants and log positions as people type them: `2026-12-01T06:00Z`, epoch ms, `-10m`, `+2h`, `now`, `@1234`."""

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic for type checkers only: click 8.2 cannot be subscripted

FORMS: Final = "ISO 8601 with its offset, epoch ms, now, -10m (ago) or +2h (from now)"
SHORT: Final = "as 2026-12-01T06:00Z, -10m, +2h"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN: Final = re.compile(r"([+-])((?:[0-9]{1,9}[smhdw])+)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Instant(ParamType):
    """An instant, in epoch ms once it is read."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else instant(value)
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


class AsOf(ParamType):
    """An instant, or a position of the log as @1234."""

    name = "instant or @position"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value.startswith("@") else str(Instant().convert(value, param, ctx))


def instant(text: str) -> int:
    """Epoch ms of what was typed; raises ValueError that says what is wrong with it.

    What is relative counts from this machine's clock.
    """
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    if text == "now":
        return _now()
    if span := _SPAN.fullmatch(text):
        pieces = re.findall(r"([0-9]+)([smhdw])", span[2])
        away = sum(int(count) * _UNITS[unit] for count, unit in pieces) * 1000
        return _now() + away if span[1] == "+" else max(0, _now() - away)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no instant: give {FORMS}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no offset; add Z for UTC")
    return round((moment - _EPOCH).total_seconds() * 1000)


def _now() -> int:
    return round(time.time() * 1000)
