"""The form of a claim: what it is filled with, what its preview says and offers instead, and that it reserves once."""

import html
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from signed import Browser, signed

from adapters.console import render
from given import Plane


def fields(pool_id: str, **more: str) -> dict[str, str]:
    said = {"poolId": pool_id, "devices[0].class": "gpu", "devices[0].count": "1", "durationSeconds": "1h"}
    return said | {_name(name): text for name, text in more.items()}


def _name(name: str) -> str:
    return {"count": "devices[0].count", "selector": "devices[0].selector"}.get(name, name)


def preview(browser: Browser, said: dict[str, str]) -> str:
    answer = browser.get(f"/reserve/preview?{urlencode(said)}", part=True)
    assert answer.status_code == 200, answer.text
    assert "<html" not in answer.text
    return str(answer.text)


def words(text: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))).replace(" :", ":").replace(" .", ".")


def helps(text: str) -> dict[str, dict[str, str]]:
    """What is offered instead, with the fields of the form that it leads to."""
    found = re.findall(r'<a class="button help" href="([^"]+)">([^<]+)</a>', text)
    return {html.unescape(said): dict(parse_qsl(urlsplit(html.unescape(href)).query)) for href, said in found}


def value(page: str, name: str) -> str:
    """What stands in a field of the form."""
    field = re.search(rf'<input[^>]* name="{re.escape(name)}" value="([^"]*)"', page)
    if field:
        return html.unescape(field[1])
    (select,) = re.findall(rf'<select name="{re.escape(name)}"[^>]*>(.*?)</select>', page, re.S)
    chosen = re.findall(r'<option value="([^"]*)"[^>]* selected', select)
    return str(chosen[0]) if chosen else ""


def test_what_fits_is_shown_with_where_when_cost_and_quota(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=6)
    plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}])
    said = words(preview(signed(plane, plane.acme), fields(pool_id, count="3", durationSeconds="2h")))
    assert "It fits" in said
    assert "Where n0, or one like it" in said
    assert "6 GPU-hours: 3 GPUs for 2 h" in said
    assert "offering gpu 2 5 6" in said


def test_nothing_is_held_or_recorded_by_looking(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    browser = signed(plane, plane.acme)
    position = plane.settle()
    preview(browser, fields(pool_id, count="8"))
    browser.page(f"/reserve?{urlencode(fields(pool_id, count='8'))}")
    preview(browser, fields(pool_id, count="nine"))
    assert plane.head() == position


def test_more_than_the_quota_is_refused_with_how_many_are_left(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=6)
    plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}], durationSeconds=1800)
    text = preview(signed(plane, plane.acme), fields(pool_id, count="5"))
    assert "It would be refused: quota exceeded" in words(text)
    assert helps(text)["Take 4"]["devices[0].count"] == "4"


def test_quota_that_ones_own_reservations_hold_is_offered_from_their_end(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=6)
    held = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 2}], durationSeconds=1800).json()
    plane.settle()
    browser = signed(plane, plane.acme)
    found = helps(preview(browser, fields(pool_id, count="5")))
    (later,) = [said for label, said in found.items() if "given back the quota" in label]
    assert "It fits" in words(preview(browser, later))
    assert later["startsAt"] >= render.iso(held["endsAt"])


def test_what_finds_no_room_would_wait_and_says_what_is_in_the_way(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(pool_id, "globex", gpu=8)
    theirs = plane.globex.reserve(pool_id, devices=[{"class": "gpu", "count": 6}]).json()
    mine = plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 1}], durationSeconds=7200).json()
    text = preview(signed(plane, plane.acme), fields(pool_id, count="4"))
    said = words(text)
    assert "It would wait: no capacity" in said
    assert "Others' bookings" in said
    assert f'/reservations/{mine["id"]}"' in text
    assert theirs["id"] not in text
    assert "globex" not in text


def test_a_start_without_room_is_offered_where_there_is_room(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=16)
    plane.acme.reserve(pool_id, devices=[{"class": "gpu", "count": 6}])
    browser = signed(plane, plane.acme)
    for asked in ({"startsAt": str(plane.store.now() + 60_000)}, {"maxPendingSeconds": "0s"}):
        text = preview(browser, fields(pool_id, durationSeconds="10m", count="4", **asked))
        (start,) = [said for label, said in helps(text).items() if label.startswith("Start at")]
        assert "maxPendingSeconds" not in start
        assert "startsAt" in start


def test_what_no_node_is_large_enough_for_is_spread_over_several(plane: Plane) -> None:
    pool_id, _ = plane.fleet(nodes=2, quota=16)
    text = preview(signed(plane, plane.acme), fields(pool_id, count="16"))
    assert "never, as the pool is" in words(text)
    spread = helps(text)["Take 8 on each of 2 nodes"]
    assert (spread["devices[0].count"], spread["nodes"]) == ("8", "2")


def test_a_budget_is_shown_and_how_long_it_would_last(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    version = plane.root.ok("GET", f"/v1/pools/{pool_id}")["version"]
    policy = {"admission": {"budgetCheck": "enforce"}}
    plane.root.ok("PATCH", f"/v1/pools/{pool_id}", {"policy": policy}, If_Match=f'"{version}"')
    plane.root.ok("PUT", "/v1/budgets/tenant/acme", {"gpuHours": 6})
    text = preview(signed(plane, plane.acme), fields(pool_id, count="4", durationSeconds="2h"))
    assert "It would be refused: budget exceeded" in words(text)
    assert "tenant 6 6 8 -2" in words(text)
    assert helps(text)["Take 1h30m"]["durationSeconds"] == "1h30m"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("selector", "device.nothing ==", "Selector of row 1"),
        ("selector", "<script>alert(1)</script>", "Selector of row 1"),
        ("count", "some", "Count of row 1: expected an integer"),
        ("durationSeconds", "long", "For how long: expected an integer, got text. Write 90m"),
        ("startsAt", "1000", "Starts: lies in the past; now is 20"),
        ("nodes", "2000", "Nodes: expected an integer <= 1024"),
        ("labels{}", "no label", "Labels: 'no label' is no key=value"),
        ("binding", "instance", "Binding: reservations of this pool have binding hold"),
        ("poolId", "pool_\x00'\u202e", "Pool: no pool"),
        ("projectId", "prj_unknown", "Project: expected prj_"),
    ],
)
def test_a_field_that_cannot_be_is_named_as_the_form_names_it(plane: Plane, name: str, text: str, told: str) -> None:
    pool_id, _ = plane.fleet()
    shown = preview(signed(plane, plane.acme), fields(pool_id, **{name: text}))
    assert told in words(shown)
    assert "<script" not in shown


def test_until_all_is_said_that_must_be_it_says_what_is_missing(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    said = words(preview(signed(plane, plane.acme), {"poolId": pool_id, "durationSeconds": " "}))
    assert "Say how many devices of which class, for how long" in said


def test_the_form_begins_with_a_pool_a_device_and_its_preview(plane: Plane) -> None:
    pool_id, _ = plane.fleet(quota=6)
    page = signed(plane, plane.acme).page("/reserve")
    assert (value(page, "poolId"), value(page, "devices[0].class"), value(page, "devices[0].count")) == (
        pool_id, "gpu", "1",
    )  # fmt: skip
    assert "6 of 6 gpu free" in page
    assert "It fits" in page


def test_the_address_fills_the_form(plane: Plane) -> None:
    first, _ = plane.fleet()
    site = plane.site("south")
    second = plane.pool(site, "other")
    plane.offer(second)
    start = (plane.store.now() // 1000 + 3600) * 1000
    page = signed(plane, plane.acme).page(f"/reserve?poolId={second}&startsAt={start}&durationSeconds=5400")
    assert (value(page, "poolId"), value(page, "startsAt"), value(page, "durationSeconds")) == (
        second, render.iso(start), "1h30m",
    )  # fmt: skip
    assert first != second


def test_another_like_one_asks_for_the_same_from_now_on(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    project = plane.project()
    line = {"class": "gpu", "count": 2, "selector": 'device.gpuModel == "H100"', "topology": {"colocate": "numa"}}
    made = plane.acme.reserve(
        pool_id, devices=[line], durationSeconds=7200, spot=True, leaseSeconds=600, projectId=project, labels={"a": "b"}
    ).json()
    page = signed(plane, plane.acme).page(f"/reserve?like={made['id']}")
    shown = {
        "devices[0].count": "2",
        "devices[0].selector": line["selector"],
        "devices[0].topology.colocate": "numa",
        "durationSeconds": "2h",
        "spot": "true",
        "leaseSeconds": "10m",
        "projectId": project,
        "startsAt": "",
    }
    assert {name: value(page, name) for name in shown} == shown
    assert re.search(r'name="labels\{\}"[^>]*>a=b</textarea>', page)


@pytest.mark.parametrize("like", ["rsv_unknown", "\x00", "'; drop", "<b>"])
def test_like_what_the_caller_cannot_see_is_the_form_as_always(plane: Plane, like: str) -> None:
    plane.fleet()
    page = signed(plane, plane.acme).page(f"/reserve?{urlencode({'like': like})}")
    assert "that you may see, so the form is as always" in page
    assert "<b>" not in page


def test_a_form_that_is_sent_twice_reserves_once(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    browser = signed(plane, plane.acme)
    page = browser.page("/reserve")
    hidden = dict(re.findall(r'<input type="hidden" name="(_\w+)" value="([^"]*)"', page))
    places = {browser.do("reservations.create", **hidden, **fields(pool_id)).headers["hx-redirect"] for _ in range(2)}
    plane.settle()
    (made,) = plane.acme.ok("GET", "/v1/reservations")["items"]
    assert {urlsplit(place).path for place in places} == {f"/reservations/{made['id']}"}
    assert (made["durationSeconds"], made["gpuCount"]) == (3600, 1)
    again = browser.page("/reserve")
    assert f'value="{hidden["_key"]}"' not in again


def test_without_a_script_the_button_bears_what_the_form_must_not_show_in_an_address(plane: Plane) -> None:
    plane.fleet()
    page = signed(plane, plane.acme).page("/reserve")
    (form,) = re.findall(r'<form id="reserve".*?</form>', page, re.S)
    assert 'method="get"' in form
    assert re.findall(r'<input[^>]* name="_form"', form) == []
    assert re.search(r'<button[^>]* name="_form"[^>]* formmethod="post" formaction="/do/reservations.create"', form)


def test_who_may_not_reserve_is_told_and_offered_nothing(plane: Plane) -> None:
    plane.fleet()
    page = signed(plane, plane.operator).page("/reserve")
    assert "compute:reservations:create" in page
    assert "<form id=" not in page
    assert "/do/reservations.create" not in page


def test_who_is_offered_no_pool_is_told_so(plane: Plane) -> None:
    plane.fleet()
    page = signed(plane, plane.globex).page("/reserve")
    assert "No pool is yours or offered to you" in page


def test_the_past_cannot_be_reserved(plane: Plane) -> None:
    plane.fleet()
    browser = signed(plane, plane.acme)
    assert "The past cannot be reserved" in browser.page(f"/reserve?asOf={plane.store.now()}")
    assert browser.get("/reserve?asOf=253402300800000").status_code == 422


def test_another_tenants_pool_is_no_pool(plane: Plane) -> None:
    pool_id, _ = plane.fleet()
    plane.offer(plane.pool(plane.site("south"), "other"), "globex")
    assert "no pool" in words(preview(signed(plane, plane.globex), fields(pool_id)))


def test_pools_of_instances_are_reserved_for_them(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    page = signed(plane, plane.acme).page("/reserve")
    assert value(page, "binding") == "instance"
    assert "It fits" in page
    said: dict[str, Any] = fields(pool_id, binding="hold")
    assert helps(preview(signed(plane, plane.acme), said))["With binding instance"]["binding"] == "instance"
