"""Instants as people type them."""

import time

import pytest
from click.testing import CliRunner
from msgspec import inspect

from adapters.cli import fields, instants, main, tables
from adapters.registry import OPERATIONS


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("1500", 1500),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01 01:00:00.5+01:00", 500),
        ("1970-01-02T00:00Z", 86_400_000),
        ("-99999d", 0),
    ],
)
def test_an_instant_is_epoch_ms_or_iso_8601(typed, sent):
    assert instants.instant(typed) == sent


@pytest.mark.parametrize(
    ("typed", "seconds"), [("now", 0), ("-10m", -600), ("+2h", 7200), ("+1d12h", 129_600), ("-1w", -604_800)]
)
def test_what_is_relative_counts_from_now(typed, seconds):
    before = round(time.time() * 1000)
    read = instants.instant(typed)
    assert before <= read - seconds * 1000 <= round(time.time() * 1000)


@pytest.mark.parametrize("typed", ["", "10m", "10m ago", "-10", "-m", "+1y", "tomorrow", "@5", "2026-01-01T00:00"])
def test_what_is_no_instant_is_refused(typed):
    with pytest.raises(ValueError, match=r"is no instant|names no offset"):
        instants.instant(typed)


def test_every_instant_of_every_operation_takes_every_form():
    typed = {
        f"{operation.name}.{field.encode_name}": fields.option(field).type
        for operation in OPERATIONS.values()
        for field in inspect.type_info(operation.request).fields
        if "epoch ms" in str(field.type) or (tables.is_instant(field.encode_name) and field.encode_name != "since")
    }
    assert {"reservations.create.startsAt", "nodes.list.asOf", "capacity.list.at", "bookings.list.until"} <= {*typed}
    assert {name for name, kind in typed.items() if not isinstance(kind, instants.Instant | instants.AsOf)} == set()


def test_an_instant_ago_is_no_option():
    ran = CliRunner().invoke(main.Root(), ["nodes", "list", "--as-of", "-10m", "--token", "t", "--server", "ftp://x"])
    assert "--server is an address" in ran.stderr
