"""The page of guarantees names tests that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [line for line in (ROOT / "docs/explanation/guarantees.md").read_text().splitlines() if line.startswith("| ")][
    1:
]


def test_every_guarantee_names_a_test() -> None:
    assert len(ROWS) > 20
    assert [row for row in ROWS if "::test_" not in row.rpartition(" | ")[2]] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0][2:42])
def test_a_test_that_is_named_is_there(row: str) -> None:
    file = ""
    for path, name in re.findall(r"`([\w/.]*)::(\w+)`", row):
        file = path or file
        assert re.search(rf"^ *(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"
