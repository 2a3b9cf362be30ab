"""The documents say what the program does."""

import re
from pathlib import Path
from typing import get_args

import pytest

from adapters import reference
from adapters.http import problems
from adapters.iam import access_file
from adapters.registry import OPERATIONS
from adapters.settings import ENVIRONMENT

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", reference.pages())
def test_a_reference_page_is_what_make_docs_writes(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == reference.pages()[name]


def test_a_reference_page_names_no_page_that_a_reader_does_not_have() -> None:
    for name, text in reference.pages().items():
        assert re.findall(r"\b[a-z]+\.md §", text) == [], name


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


def test_the_access_file_of_the_documents_is_one() -> None:
    """With a hash in place of the dots; every action that it names exists."""
    example = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "how-to" / "give-access.md").read_text(), re.DOTALL)
    assert example is not None
    text = example[1].replace('["…"]', f'["{"0" * 64}"]')
    file = access_file.parse(text.encode(), {operation.action for operation in OPERATIONS.values()})
    assert "eight-h100" in file.roles


def test_every_flag_of_serve_is_documented() -> None:
    from adapters.cli.serve import serve

    text = (ROOT / "docs" / "how-to" / "run-the-plane.md").read_text()
    for option in serve.params:
        assert option.opts[0] in text, f"docs/how-to/run-the-plane.md does not name {option.opts[0]}"
    assert ENVIRONMENT in text


def test_every_command_line_in_the_documents_exists() -> None:
    from adapters.cli.main import GROUPS, STATIC, kebab

    names = {kebab(name.split(".")[0]) for name in OPERATIONS}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for group in re.findall(r"better-compute ([a-z][a-z-]+)", page.read_text()):
            assert group in {*names, *STATIC, *GROUPS}, f"{page.name}: better-compute {group}"


def test_every_option_and_command_of_the_agent_is_documented() -> None:
    from adapters.cli.agent import run
    from domain.node_command import TYPES, Check

    text = (ROOT / "docs" / "how-to" / "run-the-agent.md").read_text()
    names = [option.opts[0] for option in run.params] + [f"`{name}`" for name in (*TYPES, *get_args(Check))]
    assert [name for name in names if name not in text] == []
