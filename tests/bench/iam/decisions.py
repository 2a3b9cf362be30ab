"""Decisions of the embedded policy language alone: no database, no HTTP; processor time, in which others do not count.

The limit beside them is one lookup in a dictionary that knows every answer already.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from domain import policy, roles
from tests.bench import figures

ROUNDS: Final = 7
LOOPS: Final = 20_000
NODE: Final = "compute-node/node_01arz3ndektsv4rrffq69g5fav"
CLAIM: Final = "compute-reservation/rsv_t37h5a9y342t8v1r3k1qcqyexw1w58j772s590w1rw5nyjfj0bqg"
CONTEXT: Final = {
    "principal.id": "alice",
    "principal.groups": ["hpc", "ml"],
    "resource.ownerId": "alice",
    "resource.gpuModel": "H100",
    "resource.gpuCount": 4,
    "resource.durationHours": 24.0,
    "resource.region": "eu-north",
    "resource.spot": False,
    "resource.parentRelations": ["user"],
    "request.time": "2026-11-30T12:00:00.000Z",
}
ASKED: Final = (("compute:nodes:cordon", NODE), ("compute:reservations:create", CLAIM))


def report(place: Path) -> str:
    rows: list[tuple[str, Callable[[], Any]]] = []
    for name, compiled in roles.COMPILED.items():
        for action, resource in ASKED:
            held = (compiled,)
            shown = policy.evaluate(action, resource, held, (), CONTEXT).reason
            ask = lambda a=action, r=resource, g=held: policy.evaluate(a, r, g, (), CONTEXT)  # noqa: E731
            rows.append((f"{name}: {action.partition(':')[2]}, {shown}", ask))
    many = documents(50, 20)
    for action, resource in ASKED:
        shown = policy.evaluate(action, resource, many, (), CONTEXT).reason
        ask = lambda a=action, r=resource: policy.evaluate(a, r, many, (), CONTEXT)  # noqa: E731
        rows.append((f"50 documents x 20 statements: {action.partition(':')[2]}, {shown}", ask))
    known = {(action, resource, "alice"): True for action, resource in ASKED}
    rows.append(("a dictionary that knows the answer", lambda: known[ASKED[0][0], ASKED[0][1], "alice"]))
    return figures.table(
        f"decisions, us of processor time each and thousands a second of one core (median of {ROUNDS} rounds)",
        [(name, _figure(micros(ask))) for name, ask in rows],
    )


def micros(ask: Callable[[], Any]) -> list[float]:
    """Microseconds each, by round; a slow one is asked less often."""
    ask()
    began = time.process_time()
    for _ in range(10):
        ask()
    loops = max(20, min(LOOPS, int(0.1 / max(1e-7, (time.process_time() - began) / 10))))
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(loops):
            ask()
        found.append((time.process_time() - began) / loops * 1e6)
    return found


def documents(count: int, statements: int) -> tuple[policy.Compiled, ...]:
    """Each statement is of one group of actions and has conditions; about a fifth of them are reached by an action."""
    groups = ("reservations", "nodes", "pools", "sites", "*")
    effects = ("allow", "allow", "allow", "deny")

    def statement(number: int) -> dict[str, Any]:
        conditions = {
            "StringEquals": {"resource.gpuModel": ["A100", "H100"] if number % 4 != 3 else "L4"},
            "NumericLessThanEquals": {"resource.gpuCount": 8, "resource.durationHours": 72},
        }
        return {
            "effect": effects[number % 4],
            "actions": [f"compute:{groups[number % 5]}:*"],
            "resources": ["compute-*/*"],
            "conditions": conditions,
        }

    return tuple(
        policy.validate({"version": 1, "statements": [statement(n * statements + m) for m in range(statements)]})
        for n in range(count)
    )


def _figure(micros: list[float]) -> str:
    return f"{figures.spread(micros, 2)}, {1000 / statistics.median(micros):,.0f} k/s"
