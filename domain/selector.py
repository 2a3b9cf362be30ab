"""The port of device selectors, so that placement knows no expression language (architecture.md §1)."""

from typing import Protocol

from domain import calendar


class Selector(Protocol):
    """A compiled selector."""

    def matches(self, device: calendar.Atom, node: calendar.Node) -> bool:
        """Whether the device qualifies; what cannot be evaluated on it does not match (anchors.md O27)."""
        ...


class Selectors(Protocol):
    """Compiles selectors; compiling the same text again is cheap."""

    def compile(self, text: str, field: str = "selector") -> Selector:
        """Raises errors.Invalid naming `field`, the selector's path in the request."""
        ...
