"""Every command of the README, the tutorial and the how-tos does what the page says."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pages
from serving import directory, serving

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RUN = (ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md")))
LEFT_OUT = {"README.md": 2, "tutorial.md": 2}
"""Blocks that cannot run here, by page; each says why in its mark."""

CODE = ("adapters", "commands", "domain", "projections", "queries", "tests", "docs")
FILES = ("Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "CHANGELOG.md", ".mkdocs.yml")


@pytest.fixture(scope="session")
def demo() -> Iterator[dict[str, str]]:
    """One demo for all pages that a worker runs: they give back what they take."""
    with directory() as home, serving(home, "--demo") as ready:
        yield {"BETTER_COMPUTE_SERVER": ready["url"], "BETTER_COMPUTE_DATA_DIR": str(home / "data")}


@pytest.fixture
def place() -> Iterator[Path]:
    with directory() as made:
        for name in ("scripts", "work", "home"):
            (made / name).mkdir()
        yield made


@contextmanager
def server_of(page: pages.Page, place: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if page.server == "demo":
        yield request.getfixturevalue("demo")
        return
    data = {"BETTER_COMPUTE_DATA_DIR": str(place / "data")}
    if page.server == "none":
        port = free_port()
        yield data | {"BETTER_COMPUTE_PORT": str(port), "BETTER_COMPUTE_SERVER": f"http://127.0.0.1:{port}"}
        return
    with serving(place) as ready:
        yield data | {"BETTER_COMPUTE_SERVER": ready["url"], "BETTER_COMPUTE_TOKEN": ready["tokens"]["root"]}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def copy_of_the_repository(work: Path) -> None:
    for name in CODE:
        shutil.copytree(ROOT / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, work / name)
    (work / ".venv").symlink_to(BIN.parent)


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_every_command_of_a_page_does_what_the_page_says(
    path: Path, place: Path, request: pytest.FixtureRequest
) -> None:
    page = pages.read(path)
    if not any(not block.not_run for block in page.blocks):
        pytest.skip("it has no commands")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("BETTER_COMPUTE_", "PYTEST_"))}
    own |= {"HOME": str(place / "home"), "PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    if page.copy:
        copy_of_the_repository(place / "work")
        own["PYTHONPATH"] = str(place / "work")
    with server_of(page, place, request) as told:
        pages.run(page, place / "scripts", own | told, place / "work")


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_no_command_of_a_page_stands_where_no_test_runs_it(path: Path) -> None:
    assert pages.unrun_commands(path) == []


def test_what_cannot_run_here_is_known() -> None:
    found = {path.name: len(page.not_run) for path in RUN if (page := pages.read(path)).not_run}
    assert found == LEFT_OUT, {path.name: [block.not_run for block in pages.read(path).not_run] for path in RUN}
