"""What tells an open page that there is something new: of which thing, and up to where in the log."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from adapters.http.slots import Slots

SLOTS: Final = Slots("live pages", most=256, of_one=64)
"""Of their own: many tabs of one tenant take nothing from those who follow the log through the API."""

PING: Final = b"event: beat\ndata: {}\n\n"
"""A message, where the API has a comment: a script hears no comments, and has to notice a line that went dead."""


def spell(entries: Iterable[Any]) -> bytes:
    """The streams that the entries are of; what happened there the page asks itself."""
    told = [(entry.position, entry.stream) for entry in entries]
    if not told:
        return b""
    streams = msgspec.json.encode(sorted({stream for _, stream in told}))
    return b"id: %d\nevent: log\ndata: %s\n\n" % (told[-1][0], streams)
