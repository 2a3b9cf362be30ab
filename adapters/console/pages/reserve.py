"""Reserve: a form that says as it is filled what would come of it."""

import secrets
from typing import Any, Final

from adapters.console.ask import Ask
from adapters.console.page import Page
from adapters.console.pages import reserve_form, reserve_preview


def build(ask: Ask) -> dict[str, Any]:
    """Filled with what the address says, so that it can be sent to somebody; then it is previewed at once."""
    may = ask.offered("reservations.create")
    if not may:
        return {"may": may, "live": ""}
    offer = reserve_form.offer(ask)
    said, unseen = reserve_form.filled(ask, offer)
    return {
        "may": may,
        "offer": offer,
        "said": said,
        "unseen": unseen,
        "rows": reserve_form.rows(said),
        "most_rows": reserve_form.MOST_ROWS,
        "more": reserve_form.has_more(said),
        "key": secrets.token_hex(16),
        **reserve_preview.look(ask, said),
    }


def preview(ask: Ask) -> dict[str, Any]:
    return reserve_preview.look(ask, reserve_form.typed(ask))


PAGES: Final = (
    Page(
        path="/reserve",
        name="console.reserve",
        template="reserve.html",
        build=build,
        title="Reserve",
        nav="Reserve",
        needs="reservations.create",
        live=("rsv", "pool", "poff"),
        past=False,
    ),
)
PARTS: Final = (
    Page(
        path="/reserve/preview",
        name="console.reserve.preview",
        template="part/preview.html",
        build=preview,
        title="Preview",
        nav="Reserve",
        past=False,
    ),
)
