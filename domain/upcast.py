"""Old shapes of stored events, brought to today's (style.md: an old shape gets an upcaster).

Each entry maps a stored name that is no longer written to a function from its JSON object to the JSON object of a
newer name. Chains are followed until the name is one that the program knows.
"""

from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]


def _maintenance_left_1(old: Json) -> Json:
    """It ended every reason, which is what none named means today."""
    return old | {"type": "node.maintenance_left.2"}


def _maintenance_entered_1(old: Json) -> Json:
    """Maintenance could not be planned then."""
    return old | {"type": "node.maintenance_entered.2"}


def _join_token_created_1(old: Json) -> Json:
    """Tokens for one node and for machines to enrol came later."""
    return old | {"type": "join_token.created.2"}


def _reservation_budgeted_1(old: Json) -> Json:
    """Nothing was admitted under a budget yet: what it ran is not known."""
    return old | {"type": "reservation.budgeted.2", "gpus": 0}


UPCASTERS: Final[dict[str, Callable[[Json], Json]]] = {
    "node.maintenance_entered.1": _maintenance_entered_1,
    "node.maintenance_left.1": _maintenance_left_1,
    "join_token.created.1": _join_token_created_1,
    "reservation.budgeted.1": _reservation_budgeted_1,
}


def upcast(name: str, data: Json) -> tuple[str, Json]:
    while name in UPCASTERS:
        data = UPCASTERS[name](data)
        name = data["type"]
    return name, data
