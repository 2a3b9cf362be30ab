"""Timestamps of policies: one strict form of ISO 8601, compared as instants (iam.md §2, "Timestamps").

`datetime` reads other forms and has no year 0, so the calendar arithmetic is done here.
"""

import re

_FORM = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def epoch_ms(text: object) -> int | None:
    """Milliseconds since 1970-01-01T00:00:00Z, or None where the text is not a valid timestamp."""
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in form.groups()[:6])
    fraction, sign, offset_hour, offset_minute = form.groups()[6:]
    if hour > 23 or minute > 59 or second > 59:
        return None
    if not 1 <= month <= 12 or not 1 <= day <= _days_in(year, month):
        return None
    offset = 0
    if sign is not None:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            return None
        offset = (int(offset_hour) * 60 + int(offset_minute)) * (-1 if sign == "-" else 1)
    minutes = _days(year, month, day) * 1440 + hour * 60 + minute - offset
    return minutes * 60_000 + second * 1000 + int((fraction or "").ljust(3, "0"))


def written(moment: int) -> str:
    """The timestamp of epoch milliseconds; beyond the four-digit years an offset brings it back in (iam.md §2)."""
    offset, mark = 0, "Z"
    if moment < _FIRST:
        offset, mark = _FARTHEST, "+23:59"
    elif moment > _LAST:
        offset, mark = -_FARTHEST, "-23:59"
    days, within = divmod(moment + offset, 86_400_000)
    year, month, day = _civil(days)
    second, millisecond = divmod(within, 1000)
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{millisecond:03}"
    return f"{year:04}-{month:02}-{day:02}T{time}{mark}"


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_in(year: int, month: int) -> int:
    return 29 if month == 2 and _leap(year) else _MONTH_DAYS[month - 1]


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, `days_from_civil`)."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day; the way back from `_days` (H. Hinnant, `civil_from_days`)."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


_FIRST = _days(0, 1, 1) * 86_400_000
_LAST = _days(10_000, 1, 1) * 86_400_000 - 1
_FARTHEST = (23 * 60 + 59) * 60_000
