"""The documents say what the program does."""

import re
from pathlib import Path
from typing import get_args

import pytest

from adapters import reference
from adapters.http import problems
from adapters.registry import OPERATIONS
from adapters.settings import ENVIRONMENT

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", reference.pages())
def test_a_reference_page_is_what_make_docs_writes(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == reference.pages()[name]


def test_a_reference_page_names_no_page_that_a_reader_does_not_have() -> None:
    for name, text in reference.pages().items():
        assert re.findall(r"\b[a-z]+\.md §", text) == [], name


def test_a_command_stands_in_a_reference_page_as_one_types_it() -> None:
    for name, text in reference.pages().items():
        assert re.findall(r"^ {0,3}better-compute .*", text, re.M) == [], name


def test_every_error_is_listed_once_and_has_a_meaning() -> None:
    rows = re.findall(r"\| `(\w+)` \| (\d+) \| (.*) \|", reference.pages()["errors.md"])
    codes = [code for code, _, _ in rows]
    assert len(codes) == len(set(codes))
    assert {"METHOD_NOT_ALLOWED", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE", "INTERNAL"} <= set(codes)
    assert [code for code, status, said in rows if not said or problems.STATUS[code] != int(status)] == []


def test_every_type_that_an_operation_names_has_a_table() -> None:
    text = reference.pages()["operations.md"]
    named = set(re.findall(r"\]\(#(\w+)\)", text))
    assert {"deviceline", "policy", "nodeinventory"} <= named
    assert named == {heading.lower() for heading in re.findall(r"\n### (\w+)\n", text)}


def test_every_link_of_a_document_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_setting_has_a_meaning() -> None:
    rows = re.findall(r"^\| `--.*\|(.*)\|$", reference.pages()["settings.md"], re.MULTILINE)
    assert len(rows) > 30
    assert [said for said in rows if not said.strip()] == []


def test_every_variable_that_the_program_reads_is_documented() -> None:
    known = reference.pages()["settings.md"]
    for source in (ROOT / "adapters").rglob("*.py"):
        for name in re.findall(rf"\b{ENVIRONMENT}_[A-Z_]*[A-Z]\b", source.read_text()):
            assert name in known or name == f"{ENVIRONMENT}_COMPLETE", f"{source}: {name}"


def test_every_command_line_in_the_documents_exists() -> None:
    from adapters.cli.main import GROUPS, STATIC, kebab

    names = {kebab(name.split(".")[0]) for name in OPERATIONS}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for group in re.findall(r"(?<!/)better-compute ([a-z][a-z-]+)", page.read_text()):
            assert group in {*names, *STATIC, *GROUPS}, f"{page.name}: better-compute {group}"


def test_every_command_to_an_agent_is_documented() -> None:
    from domain.node_command import TYPES, Check

    text = (ROOT / "docs" / "how-to" / "run-the-agent.md").read_text()
    names = [f"`{name}`" for name in (*TYPES, *get_args(Check))]
    assert [name for name in names if name not in text] == []
