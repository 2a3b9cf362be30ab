"""Offerings."""

from typing import Final

from adapters.console.page import Page

PAGES: Final[tuple[Page, ...]] = ()
