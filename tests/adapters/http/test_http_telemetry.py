"""Logs are lines of JSON that name their request and hold no credential (architecture.md §7)."""

import json
import logging
import sys

import pytest

from adapters.telemetry import REQUEST_ID, JsonFormatter, redact


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("unit", logging.WARNING, "here.py", 1, message, arguments, None)
    made.__dict__.update(extra)
    return made


def test_a_record_is_one_line_with_its_fields() -> None:
    line = JsonFormatter().format(record("hole at %d\nseen", 7, fields={"backend": 12, "kind": {"a"}}))
    assert "\n" not in line
    read = json.loads(line)
    assert read["message"] == "hole at 7\nseen"
    assert (read["level"], read["logger"], read["backend"]) == ("warning", "unit", 12)


def test_the_request_is_named_while_it_runs() -> None:
    token = REQUEST_ID.set("r-1")
    try:
        assert json.loads(JsonFormatter().format(record("m")))["requestId"] == "r-1"
    finally:
        REQUEST_ID.reset(token)
    assert "requestId" not in json.loads(JsonFormatter().format(record("m")))


@pytest.mark.parametrize("secret", ["biam_key_" + "A" * 49, "biam_ses_" + "b-_9" * 12 + "Z", "Bearer abcDEF123.-_~+/="])
def test_credentials_are_blotted_out_wherever_they_stand(secret: str) -> None:
    tail = secret[12:]
    for line in (
        JsonFormatter().format(record("got %s", secret)),
        JsonFormatter().format(record("m", fields={"header": secret})),
    ):
        assert tail not in line
        assert "[redacted]" in json.loads(line)["message"] + str(json.loads(line).get("header"))
    assert tail not in redact(f"x {secret} y")


def test_a_trace_is_blotted_too_and_text_that_json_cannot_hold_is_still_logged() -> None:
    try:
        raise RuntimeError("biam_key_" + "A" * 49)
    except RuntimeError:
        line = JsonFormatter().format(record("m", exc_info=sys.exc_info()))
    assert "AAAA" not in line
    assert "Traceback" in json.loads(line)["exception"]
    assert json.loads(JsonFormatter().format(record("lone \ud800")))["message"]
