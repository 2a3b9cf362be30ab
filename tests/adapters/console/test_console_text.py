"""What others wrote is read as it is in the log; what a form sends back is what it was given."""

import re
from html import unescape

import pytest
from signed import signed

import given
from adapters.console import ask, forms, render
from adapters.console.exact import exact

TURNED = "\u202eabc\u2066"
PILED = "e" + "\u0301" * 40
STEERING = "\x1b]52;c;aGk=\x07\x9b31m"


def shown(template: str, **values: object) -> str:
    made = render.environment().from_string(template)
    return render.linked(lambda: made.render(values), lambda things, stories: render.Ways(things, stories))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TURNED, r"\u202eabc\u2066"),
        (PILED, "e" + "\u0301" * 4 + r"\u0301" * 36),
        (STEERING, r"\x1b]52;c;aGk=\x07\x9b31m"),
        ("a\u200bb\ufeff\U000e0041", r"a\u200bb\ufeff\U000e0041"),
        ("deux\u00a0mots, \u5317\u4eac\u3000e\u0301\r\n\tz", "deux\u00a0mots, \u5317\u4eac\u3000e\u0301\r\n\tz"),
        ("<b>&", "&lt;b&gt;&amp;"),
    ],
)
def test_a_text_shows_all_of_itself_and_moves_nothing_else(text: str, told: str) -> None:
    assert shown("<p>{{ it }}</p>", it=text) == f"<p>{told}</p>"
    assert shown("<p>{{ it | thing(name) }}</p>", it="node_1", name=text).endswith(f">{told}</a></p>")
    assert shown("{% macro m(x) %}<b>{{ x }}</b>{% endmacro %}{{ m(it) }}", it=text) == f"<b>{told}</b>"


@pytest.mark.parametrize(
    "template",
    [
        '<input value="{{ it }}">',
        "<input value='{{ it }}'>",
        '<input{% if it %} checked{% endif %} value="a">it\'s <option value="{{ it if it else 1 }}">',
        '<textarea rows="{{ 3 }}" name="x">{{ it }}</textarea>',
        '<textarea name="x">a="1" <b> {% for one in [it] %}{{ one }}{% endfor %}</textarea>',
        '{% macro m(x) %}<i value="{{ x }}">{% endmacro %}{{ m(it) }}',
    ],
)
def test_what_a_form_sends_back_is_what_it_got(template: str) -> None:
    assert TURNED in shown(template, it=TURNED)
    assert TURNED not in shown(template + "<p>it's {{ it }}</p>", it=TURNED).partition("<p>")[2]


def test_numbers_and_markup_stay_what_they_are() -> None:
    assert exact(7) == 7
    assert shown('<b title="{{ 7 }}">{{ 8 }}</b>{{ it | instant }}', it=0).startswith('<b title="7">8</b><time')


def test_a_reason_is_told_to_the_letter_and_can_be_chosen_to_the_letter(plane: given.Plane) -> None:
    site = plane.site()
    node = plane.node(site, plane.pool(site), "n1")
    plane.root.ok("POST", f"/v1/nodes/{node}/maintenance", {"on": True, "reason": TURNED})
    plane.root.ok("POST", f"/v1/nodes/{node}/labels", {"labels": {"rack": TURNED}})
    plane.settle()
    browser = signed(plane, plane.root)
    page = browser.page(f"/nodes/{node}")
    assert TURNED not in re.sub(r'(value|title)="[^"]*"|<textarea.*?</textarea>', "", page, flags=re.DOTALL)
    assert r"\u202eabc\u2066" in page
    areas = re.findall(r'<textarea name="labels\{\}"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert [unescape(area).strip() for area in areas] == [f"rack={TURNED}"]
    done = browser.do("nodes.maintain", id=node, on="false", reason=TURNED)
    assert done.status_code == 200, done.text
    assert plane.root.get(f"/v1/nodes/{node}").json()["maintenance"] == []


@pytest.mark.parametrize("labels", [{}, {"rack": "a=b"}, {"rack": "r1", "zone": ""}, {"x y": "'<&>\""}])
def test_labels_that_fit_lines_come_back_as_they_are(labels: dict[str, str]) -> None:
    told = forms.lines(labels)
    assert told is not None
    assert forms.document([("labels{}", told)]).get("labels", {}) == labels


@pytest.mark.parametrize(
    "labels", [{"a=b": "c"}, {"rack": "r1\nrole=x"}, {" rack": "r1"}, {"rack": "r1 "}, {"a\u2028b": "c"}]
)
def test_labels_that_would_come_back_as_others_are_no_form(plane: given.Plane, labels: dict[str, str]) -> None:
    """Sending the form unchanged must not change them."""
    assert forms.lines(labels) is None
    node = plane.node(site := plane.site(), plane.pool(site), "n1")
    plane.root.ok("POST", f"/v1/nodes/{node}/labels", {"labels": labels})
    plane.settle()
    page = signed(plane, plane.root).page(f"/nodes/{node}")
    assert 'name="labels{}"' not in page
    assert "better-compute nodes label" in page


@pytest.mark.parametrize(
    ("text", "hours"),
    [("2026-12-01T03:00:00", 3), ("2026-12-01T03:00:00Z", 3), ("2026-12-01T03:00:00+05:00", -2), ("2026-12-01T03", 3)],
)
def test_an_instant_is_of_the_zone_that_it_names(text: str, hours: int) -> None:
    assert forms.instant(text) == 1_796_083_200_000 + hours * 3_600_000
    assert ask.as_of(text) == str(forms.instant(text))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59"])
def test_an_instant_beyond_the_calendar_is_refused_as_a_page(plane: given.Plane, text: str) -> None:
    answer = signed(plane, plane.root).get(f"/?asOf={text}")
    assert (answer.status_code, "before 1970 or after" in answer.text) == (422, True), answer.text
