"""Spans of time and instants as people write and read them: `90m`, `1d12h`; `14:05Z`."""

import re
from datetime import UTC, datetime
from typing import Final

SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PIECE: Final = re.compile(r"([0-9]{1,9})\s*([wdhms])")


def seconds(text: str) -> int:
    """What was typed, in seconds; raises ValueError that says what is wrong with it."""
    written = text.strip().lower()
    pieces = _PIECE.findall(written)
    if not pieces or _PIECE.sub("", written).strip():
        raise ValueError(f"{text!r} is no span of time; write 90m, 8h, 2d or 1d12h")
    return sum(int(number) * SECONDS[unit] for number, unit in pieces)


def brief(milliseconds: int) -> str:
    """In at most six letters, rounded down: `45s`, `12m`, `3h05m`, `2d04h`, `120d`."""
    whole = max(0, milliseconds // 1000)
    if whole < 60:
        return f"{whole}s"
    if whole < 3_600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    days, hours = whole // 86_400, whole % 86_400 // 3_600
    return f"{days}d{hours:02}h" if days < 100 else f"{days}d"


def exact(whole: int) -> str:
    """Seconds as one would type them: `1d12h`, `90s` as `1m30s`."""
    pieces = []
    for unit, size in SECONDS.items():
        if unit != "w" and whole >= size:
            pieces.append(f"{whole // size}{unit}")
            whole %= size
    return "".join(pieces) or "0s"


def clock(milliseconds: int, now: int) -> str:
    """An instant in UTC: the time alone on the day of `now`, both in epoch ms."""
    moment, today = (datetime.fromtimestamp(at / 1000, UTC) for at in (milliseconds, now))
    if moment.date() == today.date():
        return f"{moment:%H:%MZ}"
    return f"{moment:%m-%d %H:%MZ}" if moment.year == today.year else f"{moment:%Y-%m-%d}"


def second(milliseconds: int) -> str:
    """The time of day in UTC to the second."""
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M:%SZ}"
