"""Old shapes of stored events, brought to today's (style.md: an old shape gets an upcaster).

Each entry maps a stored name that is no longer written to a function from its JSON object to the JSON object of a
newer name. Chains are followed until the name is one that the program knows.
"""

from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]

UPCASTERS: Final[dict[str, Callable[[Json], Json]]] = {}


def upcast(name: str, data: Json) -> tuple[str, Json]:
    while name in UPCASTERS:
        data = UPCASTERS[name](data)
        name = data["type"]
    return name, data
