"""Spans of time are read as people write them, and told in few letters."""

import pytest

from adapters.cli import spans

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5_400), ("8h", 28_800), ("2d", 172_800), ("1d12h", 129_600), ("1w 30s", 604_830)]
)
def test_a_span_is_read(text, seconds):
    assert spans.seconds(text) == seconds
    assert spans.seconds(spans.exact(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "8", "h", "-1h", "1h!", "an hour", "1.5h"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(ValueError, match="is no span of time"):
        spans.seconds(text)


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (-5, "0s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (3 * HOUR + 300_000, "3h05m"),
        (52 * HOUR, "2d04h"),
        (2_400 * HOUR, "100d"),
    ],
)
def test_a_span_is_told_in_six_letters(milliseconds, told):
    assert spans.brief(milliseconds) == told


def test_an_instant_says_its_day_where_that_is_not_todays():
    now = 1_800_000_000_000
    told = [spans.clock(now + hours * HOUR, now) for hours in (2, 24, 9_000)]
    assert told == ["10:00Z", "01-16 08:00Z", "2028-01-25"]
