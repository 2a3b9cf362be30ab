"""The pages of instances, flavors and images: one life of an instance, and what is offered in each of its states."""

import time

from offers import offered
from signed import signed

import given
from commands import instance_consoles

LONG = "w" * 63


def until(plane: given.Plane, id: str, state: str) -> None:
    """Its node does what it is told, until acme's instance is in this state."""
    deadline = time.monotonic() + 20
    while (shown := plane.acme.ok("GET", f"/v1/instances/{id}"))["state"] != state:
        assert time.monotonic() < deadline, f"still {shown['state']}"
        plane.wired.follower.wait(plane.wired.follower.position + 1, 0.05)
        if shown["nodeId"]:
            plane.report(shown["nodeId"])


def running(plane: given.Plane) -> str:
    """acme's instance, which its node says runs."""
    pool_id, _ = plane.hosts()
    id = str(plane.instance(pool_id)["id"])
    until(plane, id, "running")
    plane.settle()
    return id


def test_a_form_starts_one_and_brings_its_user_data_as_bytes(plane: given.Plane) -> None:
    pool_id, _ = plane.hosts()
    flavor_id, image_id = plane.flavor("small"), plane.image()
    plane.settle()
    browser = signed(plane, plane.acme)
    page = browser.page("/instances/new")
    assert f'name="_form" value="{browser.form}"' in page
    assert offered(page) == {"instances.create"}
    fields = {"poolId": pool_id, "flavorId": flavor_id, "imageId": image_id, "labels{}": "team=vision\nwhat=a<b"}
    bytes_ = {"userData:base64": "#cloud-config\r\n", "sshKeys[]:lines": "", "maxPendingSeconds": "1h"}
    refused = browser.do("instances.create", name="No Name", _then="/instances/{id}", **fields, **bytes_)
    assert refused.status_code == 422
    made = browser.do("instances.create", name=LONG, _then="/instances/{id}", **fields, **bytes_)
    shown = browser.page(made.headers["hx-redirect"])
    assert f"<h1>{LONG}</h1>" in shown
    assert "what=a&lt;b" in shown
    assert "SHA-256 " in shown


def test_a_form_offers_what_is_ones_own_however_wide_one_may_look(plane: given.Plane) -> None:
    plane.hosts()
    plane.flavor("small")
    plane.image()
    theirs = plane.acme.ok("POST", "/v1/projects", {"name": "vision"}, Idempotency_Key="vision")["id"]
    plane.settle()
    for path in ("/instances/new", "/reserve"):
        assert theirs in signed(plane, plane.acme).page(path)
        page = signed(plane, plane.root).page(path)
        assert offered(page) != set()
        assert theirs not in page


def test_each_state_offers_what_it_takes(plane: given.Plane) -> None:
    id = running(plane)
    browser = signed(plane, plane.acme)
    here = f"/instances/{id}"
    assert offered(browser.page(here)) == {"instances.stop", "instances.reboot", "instances.delete"}
    assert browser.do("instances.reboot", id=id).status_code == 200
    assert browser.do("instances.stop", id=id).status_code == 200
    plane.settle()
    assert "instances.stop" not in offered(browser.page(here))
    until(plane, id, "stopped")
    plane.settle()
    assert offered(browser.page(here)) == {"instances.start", "instances.delete"}
    assert browser.do("instances.start", id=id).status_code == 200
    assert browser.do("instances.delete", id=id).status_code == 200
    plane.settle()
    assert offered(browser.page(here)) == set()


def test_others_are_offered_nothing_and_another_tenant_sees_nothing(plane: given.Plane) -> None:
    id = running(plane)
    here = f"/instances/{id}"
    for client in (plane.root, plane.auditor):
        browser = signed(plane, client)
        assert offered(browser.page(here)) == set()
        assert "Its console is not yours to see." in browser.page(here)
    stranger = signed(plane, plane.globex)
    assert stranger.get(here).status_code == 404
    assert stranger.get(f"{here}/console", part=True).status_code == 404
    assert "There are no instances." in stranger.page("/instances")


def test_as_it_stood_then_it_has_no_console_and_no_forms(plane: given.Plane) -> None:
    id = running(plane)
    then = plane.settle()
    plane.acme.ok("POST", f"/v1/instances/{id}/stop", {})
    plane.settle()
    page = signed(plane, plane.acme).page(f"/instances/{id}?asOf=@{then}")
    assert offered(page) == set()
    assert "without its past" in page


def test_a_console_shows_text_that_is_no_markup(plane: given.Plane) -> None:
    id = running(plane)
    node_id = plane.acme.ok("GET", f"/v1/instances/{id}")["nodeId"]
    wrote = instance_consoles.Tail(id, 26, "<script>alert(1)</script>")
    session = plane.store.load(node_id).state.session
    instance_consoles.keep(plane.store, plane.wired.consoles, [instance_consoles.Written(node_id, session, (wrote,))])
    browser = signed(plane, plane.acme)
    for page in (browser.page(f"/instances/{id}"), browser.get(f"/instances/{id}/console", part=True).text):
        assert ">&lt;script&gt;alert(1)&lt;/script&gt;</pre>" in page
        assert "<script>alert" not in page


def test_an_open_page_follows_the_console_as_long_as_the_instance_may_write(plane: given.Plane) -> None:
    """It is told where to ask by the part of the page that shows itself anew, so that what starts later is followed."""

    def follows() -> bool:
        live = browser.page(f"/instances/{id}?waitFor={plane.settle()}").partition("<h2>Console</h2>")[0]
        return f'data-console="/instances/{id}/console"' in live

    id = running(plane)
    browser = signed(plane, plane.acme)
    assert follows()
    browser.do("instances.stop", id=id)
    until(plane, id, "stopped")
    assert not follows()
    browser.do("instances.start", id=id)
    until(plane, id, "running")
    assert follows()


def test_a_flavor_is_made_once_and_retired_by_its_owner_alone(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme)
    assert offered(browser.page("/flavors")) == {"flavors.create"}
    size = {"vcpu": "2", "memoryGiB": "4", "diskGiB": "10", "gpus.class": "", "gpus.count": ""}
    made = [browser.do("flavors.create", name=LONG, _key="once", _then="/flavors/{id}", **size) for _ in range(2)]
    places = {answer.headers["hx-redirect"].partition("?")[0] for answer in made}
    assert len(places) == 1
    (here,) = places
    plane.settle()
    assert offered(browser.page(here)) == {"flavors.retire"}
    assert offered(signed(plane, plane.acme_user).page(here)) == set()
    assert signed(plane, plane.globex).get(here).status_code == 404
    assert browser.do("flavors.retire", id=here.rpartition("/")[2]).status_code == 200
    plane.settle()
    assert offered(browser.page(here)) == set()


def test_an_image_waits_for_its_bytes_and_for_who_vouches(plane: given.Plane) -> None:
    browser = signed(plane, plane.acme)
    page = browser.page("/images")
    assert "There are no images." in page
    assert "every tenant</option>" not in page
    fields = {"name": "mine", "imageVersion": "2026-11-30", "format": "raw", "sha256": "a" * 64, "sizeBytes": "512"}
    made = browser.do("images.create", visibility="private", purpose="os", _then="/images/{id}", **fields)
    here = made.headers["hx-redirect"].partition("?")[0]
    plane.settle()
    shown = browser.page(here)
    assert "<h1>mine 2026-11-30</h1>" in shown
    assert "Its bytes have not come." in shown
    assert offered(shown) == {"images.sign", "images.retire"}
    assert signed(plane, plane.globex).get(here).status_code == 404
    id = here.rpartition("/")[2]
    plane.allow()
    assert browser.do("images.sign", id=id, signature="AAAA").status_code == 422
    assert browser.do("images.retire", id=id).status_code == 200
    plane.settle()
    assert offered(browser.page(here)) == set()
