"""The documents build into a site without a warning, and a reader's browser asks nobody else for anything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FETCHED = {"href": {"link"}, "src": {"script", "img", "iframe", "source", "embed"}, "srcset": {"img", "source"}}
pytestmark = pytest.mark.xdist_group("site")


class Fetches(HTMLParser):
    """What a page makes a browser load by itself, apart from what a reader follows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag in FETCHED.get(name, ())]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", ".mkdocs.yml")
    ran = subprocess.run(
        (*build, "--site-dir", built),
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return built


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert {page.relative_to(site) for page in site.rglob("*.html")} == pages | {Path("404.html")}


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        outside = [one for one in Fetches(page.read_text()).found if re.match(r"(\w+:)?//", one)]
        assert outside == [], page.relative_to(site)


def test_a_style_sheet_loads_nothing_from_another_host(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        assert re.findall(r"""(?:url\(|@import)\s*["']?(?:\w+:)?//[^)]*""", sheet.read_text()) == [], sheet.name


def test_nothing_is_turned_on_that_makes_the_theme_s_script_go_elsewhere(site: Path) -> None:
    """It knows two such places: diagrams, which it would fetch a program for, and facts about a repository."""
    for page in site.rglob("*.html"):
        assert re.findall(r'class="mermaid|data-md-component="source"|giscus', page.read_text()) == [], page.name
