"""What a form says becomes the JSON that the API takes: by the names of its fields, never by how a text looks."""

from typing import Any

import pytest

from adapters.console import forms
from domain import errors


@pytest.mark.parametrize(
    ("pairs", "made"),
    [
        ({"name": " north "}, {"name": "north"}),
        ({"devices[0].class": "gpu", "devices[0].count": "8"}, {"devices": [{"class": "gpu", "count": "8"}]}),
        ({"devices[3].count": "1", "devices[1].count": "2"}, {"devices": [{"count": "2"}, {"count": "1"}]}),
        (
            {"keys[]:lines": "ssh-ed25519 A a, b\r\n\r\n ssh-ed25519 B \r\n"},
            {"keys": ["ssh-ed25519 A a, b", "ssh-ed25519 B"]},
        ),
        ({"nodes[]": "a, b\r\nc,,"}, {"nodes": ["a", "b", "c"]}),
        ({"labels{}": "team=vision\r\nwhat=a=b"}, {"labels": {"team": "vision", "what": "a=b"}}),
        ({"limits{gpu.mig}": "8", "limits{gpu}": ""}, {"limits": {"gpu.mig": "8"}}),
        ({"endsAt": "2026-12-01T10:00"}, {"endsAt": 1_796_119_200_000}),
        ({"plan.from": "2026-12-01T10:00:00.5"}, {"plan": {"from": 1_796_119_200_500}}),
        ({"from:day": "2026-12-01"}, {"from": 1_796_083_200_000}),
        ({"durationSeconds": "1d 12h"}, {"durationSeconds": 129_600}),
        ({"policy.leaseSeconds": "1.5h"}, {"policy": {"leaseSeconds": 5400}}),
        ({"durationSeconds": "soon"}, {"durationSeconds": "soon"}),
        ({"userData:base64": "a\r\nb"}, {"userData": "YQpi"}),
        ({"limit:null": "on", "policy:empty": "on"}, {"limit": None, "policy": {}}),
        ({"_form": "x", "name": "", "text": "  "}, {}),
    ],
)
def test_fields_have_the_names_and_the_shapes_of_the_api(pairs: dict[str, str], made: Any) -> None:
    assert forms.document(pairs.items()) == made


@pytest.mark.parametrize("name", ["reason", "imageVersion", "labels{endsAt}", "labels{maxSeconds}"])
@pytest.mark.parametrize("text", ["2026-12-01T10:00", "5m", "@7", "8"])
def test_a_text_stays_a_text_whatever_it_looks_like(name: str, text: str) -> None:
    assert text in str(forms.document([(name, text)]))


def test_no_row_of_a_form_is_lost() -> None:
    made = forms.document((f"devices[{row}].count", str(row)) for row in range(100))
    assert [line["count"] for line in made["devices"]] == [str(row) for row in range(100)]


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "1"), ("a.b", "1")],
        [("a.b", "1"), ("a", "1")],
        [("a[0]", "1"), ("a.b", "1")],
        [("a", "1"), ("a", "2")],
        [("a" + ".b" * 16, "1")],
        [("a[100]", "1")],
        [("9", "1")],
        [("a:eval", "1")],
    ],
)
def test_what_no_page_sends_is_malformed(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(errors.Malformed):
        forms.document(pairs)
