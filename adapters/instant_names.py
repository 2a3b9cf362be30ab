"""Which fields of requests, answers and events hold an instant (epoch ms): their names say so (api.md §2)."""

from typing import Final

OTHERS: Final = frozenset(
    {
        *("at", "confirmUntil", "deadline", "earliestStart", "from", "leaseUntil", "notAfter", "notBefore"),
        *("prepareBy", "since", "timestamp", "until"),
    }
)
"""Those that end neither in At nor in Since."""


def holds(field: str) -> bool:
    return field.endswith(("At", "Since")) or field in OTHERS
