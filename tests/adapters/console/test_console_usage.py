"""The usage page: a chart's data, the sums beside it, and a file that a spreadsheet reads as text."""

import csv
import html
import io
import json
import re
from datetime import datetime

import pytest
from signed import signed

from adapters.console.pages import usage
from given import Plane


def used(plane: Plane, **fields: object) -> str:
    pool_id, _ = plane.fleet()
    made = plane.acme.reserve(pool_id, **fields).json()
    plane.activate(plane.acme, made["id"])
    plane.acme.ok("POST", f"/v1/reservations/{made['id']}/release", {})
    plane.settle()
    return pool_id


@pytest.mark.parametrize("span", ["day", "week", "month"])
def test_the_chart_has_a_value_for_each_step_of_each_series(plane: Plane, span: str) -> None:
    used(plane)
    page = signed(plane, plane.acme).page(f"/usage?span={span}&by=gpuModel&waitFor={plane.head()}")
    found = re.search(r'data-chart="([^"]*)"', page)
    assert found is not None
    chart = json.loads(html.unescape(found[1]))
    length, step = usage.SPANS[span]
    ((name, hours),) = chart["series"]
    assert name == "H100"
    assert len(hours) == length // (step * 1000)
    assert sum(hours) > 0


def test_nothing_that_ran_is_said(plane: Plane) -> None:
    assert "Nothing ran in this time" in signed(plane, plane.globex).page("/usage")


def test_each_tenant_sees_its_own_and_the_platform_all(plane: Plane) -> None:
    used(plane)
    assert "acme" not in signed(plane, plane.globex).page("/usage?by=tenant").partition("<h1>")[2]
    assert "acme" in signed(plane, plane.root).page(f"/usage?by=tenant&waitFor={plane.head()}").partition("<h1>")[2]


def test_the_file_has_the_rows_of_the_list(plane: Plane) -> None:
    used(plane)
    answer = signed(plane, plane.acme).get(f"/usage.csv?waitFor={plane.head()}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="usage.csv"' in answer.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.text))
    (told,) = plane.acme.ok("GET", "/v1/usage")["items"]
    assert float(row["gpuHours"]) == told["gpuHours"]
    assert (row["tenantId"], row["gpuModel"], row["projectId"]) == ("acme", "H100", "")
    assert [datetime.fromisoformat(row[name]).timestamp() for name in ("from", "until")] == [
        told[name] // 1000 for name in ("from", "until")
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_text_is_no_formula(text: str) -> None:
    assert usage._cell("poolId", text) == f"'{text}"


def test_as_of_shows_what_had_run_by_then(plane: Plane) -> None:
    before = plane.settle()
    used(plane)
    assert "Nothing ran in this time" in signed(plane, plane.acme).page(f"/usage?asOf=@{before}")


def test_projects_and_pools_of_every_tenant_are_called_by_their_names(plane: Plane) -> None:
    project = plane.acme.ok("POST", "/v1/projects", {"name": "vision"}, Idempotency_Key="vision")
    used(plane, projectId=project["id"])
    for client in (plane.acme, plane.root):
        page = signed(plane, client).page(f"/usage?by=project&waitFor={plane.head()}")
        assert 'series-0"></span>vision' in page
