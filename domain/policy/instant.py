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
