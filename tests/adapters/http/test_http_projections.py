"""What the running application says of its read models, at /metrics and at /health/ready."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from click.testing import CliRunner

from adapters.cli.projections import projections
from given import Plane
from projections import table

NAMES = {of.name for of in table.ASYNC}
INSERT = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES (%s, 1, %s, %s)"


def gauges(plane: Plane, name: str) -> dict[str, float]:
    """The values of one gauge by projection."""
    text = plane.app.get("/metrics").text
    found = re.findall(rf'^better_compute_projection_{name}{{projection="(\w+)"}} (\S+)$', text, re.MULTILINE)
    return {projection: float(value) for projection, value in found}


def checks(plane: Plane, status: int) -> dict[str, object]:
    answer = plane.app.get("/health/ready")
    assert answer.status_code == status, answer.text
    return dict(answer.json()["checks"])


@contextmanager
def full(connection: psycopg.Connection) -> Iterator[None]:
    """For the time of the block the table of sites takes no new row."""
    connection.execute("ALTER TABLE sites ADD CONSTRAINT full_ CHECK (false) NOT VALID")
    try:
        yield
    finally:
        connection.execute("ALTER TABLE sites DROP CONSTRAINT full_")


def test_a_read_model_that_shows_everything_lags_by_nothing(plane: Plane) -> None:
    plane.site()
    head = plane.settle()
    assert gauges(plane, "position") == dict.fromkeys(NAMES, head)
    assert gauges(plane, "lag_events") == dict.fromkeys(NAMES, 0)
    assert gauges(plane, "failed") == dict.fromkeys(NAMES, 0)
    said = checks(plane, 200)
    assert said == {"database": "ok", "projectionLag": 0, "projections": "ok", "follower": "ok", "accessFile": "ok"}


def test_the_meaning_of_each_number_is_told_with_it(plane: Plane) -> None:
    text = plane.app.get("/metrics").text
    for name in ("position", "lag_events", "failed"):
        assert re.search(rf"^# HELP better_compute_projection_{name} \w.{{20}}", text, re.MULTILINE)
    assert "behind the furthest one that this process has seen" in text


def test_the_page_of_metrics_has_every_metric_with_its_type_and_meaning(plane: Plane) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    plane.site()
    text = plane.app.get("/metrics").text
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)", text, re.MULTILINE))
    told = {
        name: said for name, said in re.findall(r"^# HELP (\w+) (.+)", text, re.MULTILINE) if name[-8:] != "_created"
    }
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .* \| (.+) \|$", page, re.MULTILINE)
    assert {(name, types[name], said) for name, said in told.items()} == set(rows)


def test_one_that_stopped_falls_behind_alone_until_it_is_retried(
    plane: Plane, database: str, connection: psycopg.Connection
) -> None:
    before = plane.settle()
    with full(connection):
        plane.site("one")
        bad = plane.settle()
        plane.site("two")
        head = plane.settle()
        assert gauges(plane, "failed") == dict.fromkeys(NAMES, 0) | {"sites": 1}
        assert before <= gauges(plane, "position")["sites"] < bad
        lag = head - gauges(plane, "position")["sites"]
        assert gauges(plane, "lag_events") == dict.fromkeys(NAMES, 0) | {"sites": lag}
        assert re.fullmatch(r"sites: position \d+, site\.created\.1", str(checks(plane, 503)["projections"]))
    retried = CliRunner().invoke(projections, ["retry", "sites", "--database-url", database])
    assert retried.exit_code == 0, retried.output
    plane.site("three")
    plane.settle()
    assert gauges(plane, "failed")["sites"] == 0
    assert gauges(plane, "lag_events")["sites"] == 0
    assert checks(plane, 200)["projections"] == "ok"


def test_health_tells_strangers_no_names(plane: Plane, connection: psycopg.Connection) -> None:
    """Of a failure it tells position and type; the ids and rows that its error quotes are in the log and the list."""
    with full(connection):
        site_id = plane.site("secret")
        plane.settle()
        (failure,) = plane.wired.runner.failures.values()
        assert site_id in failure
        assert site_id not in plane.app.get("/health/ready").text


def test_an_open_hole_in_the_log_is_told_while_it_is_open(plane: Plane, database: str) -> None:
    plane.settle()
    with psycopg.connect(database) as slow:
        slow.execute(INSERT, ("site_slow", "site.renamed.1", b"{}"))
        plane.site()
        assert not plane.wired.follower.wait(plane.head(), 0.3)
        said = checks(plane, 200)
        assert float(str(said["holeSeconds"])) >= 0
        assert said["projectionLag"] == plane.head() - plane.wired.follower.position
        slow.rollback()
    plane.settle()
    assert "holeSeconds" not in checks(plane, 200)
