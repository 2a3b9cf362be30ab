"""The documents say what the program does."""

import re
from pathlib import Path

import pytest

from adapters import reference
from adapters.registry import OPERATIONS
from adapters.settings import ENVIRONMENT

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", reference.pages())
def test_a_reference_page_is_what_make_docs_writes(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == reference.pages()[name]


def test_every_link_of_a_document_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_flag_of_serve_is_documented() -> None:
    from adapters.cli.serve import serve

    text = (ROOT / "docs" / "running.md").read_text()
    for option in serve.params:
        assert option.opts[0] in text, f"docs/running.md does not name {option.opts[0]}"
    assert ENVIRONMENT in text


def test_every_command_line_in_the_documents_exists() -> None:
    from adapters.cli.main import GROUPS, STATIC, kebab

    names = {kebab(name.split(".")[0]) for name in OPERATIONS}
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for group in re.findall(r"better-compute ([a-z][a-z-]+)", page.read_text()):
            assert group in {*names, *STATIC, *GROUPS}, f"{page.name}: better-compute {group}"
