"""A directory in the navigation stands for its pages, in the order of their names: `decisions/`."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    config.nav = [_opened(entry, Path(config.docs_dir)) for entry in config.nav]
    return config


def _opened(entry: Any, docs: Path) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {title: _pages(docs, to) if _is_directory(to) else to for title, to in entry.items()}


def _is_directory(target: Any) -> bool:
    return isinstance(target, str) and target.endswith("/")


def _pages(docs: Path, directory: str) -> list[dict[str, str]]:
    return [{_heading(page): f"{directory}{page.name}"} for page in sorted((docs / directory).glob("*.md"))]


def _heading(page: Path) -> str:
    """Its first one, also where a remark stands before it."""
    return next(line[2:] for line in page.read_text().splitlines() if line.startswith("# "))
