"""What deciding, and keeping a record of it, costs a command: its share of the time of the whole, one caller alone.

In the process of the plane and past HTTP, so that the share is not made small by what else a request passes.
`decided` is identifying the caller, looking at the request's ids and every decision; `recorded` is what an append takes
longer with the admission than without, asked of the log with the same event. Beside them the same command with an
authorizer that says yes at once.
"""

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.iam.embedded import Embedded
from adapters.postgres import embedded
from adapters.registry import OPERATIONS
from commands import gatekeeper
from domain import admission, project
from domain.access import Decision, Resource, Session
from domain.event import Append, Change, Meta
from domain.operation import Call
from tests import given
from tests.bench import figures

ROUNDS: Final = 9
COMMANDS: Final = 100
DAY_MS: Final = 86_400_000
_numbers = itertools.count(1)


class Yes:
    """The authorizer of the plane, but for deciding: it says yes at once."""

    def __init__(self, real: Embedded) -> None:
        self._real = real
        self._yes = Decision(True, "allowed", real.digest)

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        return self._yes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Stopwatch:
    """How long calls of some functions took together; a call inside another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = False

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            if self._inside:
                return function(*args, **named)
            self._inside, began = True, time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                self.seconds += time.perf_counter() - began
                self._inside = False

        return timed


class Scene:
    """A plane with one machine and a customer, and the commands that are measured."""

    def __init__(self, plane: given.Plane) -> None:
        self.plane = plane
        self.dispatch = plane.wired.dispatcher
        pool_id, _ = plane.fleet(quota=1_000_000)
        site_id = str(plane.root.ok("GET", f"/v1/pools/{pool_id}")["siteId"])
        start = plane.store.now() + DAY_MS
        self.commands: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
            "projects.create": ("acme", lambda n: {"name": f"p{n}"}),
            "sites.update": ("root", lambda n: {"id": site_id, "name": f"s{n}"}),
            "reservations.create": (
                "acme",
                lambda n: {
                    "poolId": pool_id,
                    "devices": [{"class": "gpu", "count": 1}],
                    "startsAt": start + n * 60_000,
                    "durationSeconds": 60,
                },
            ),
        }
        self.watch = Stopwatch()
        self.keeper: Any = self.dispatch.gatekeeper
        self.keeper.admit = self.watch.of(self.keeper.admit)
        self.keeper.decide = self.watch.of(self.keeper.decide)
        self.identify = self.watch.of(plane.wired.authorizer.identify)
        self.authorizers = {"real": self.keeper._authorizer, "yes": Yes(plane.wired.authorizer)}

    def run(self, name: str, authorizer: str) -> tuple[float, float]:
        """Seconds of a row of commands, and of them what was spent on deciding."""
        who, asked = self.commands[name]
        client = self.plane.root if who == "root" else self.plane.acme
        token = client.headers["authorization"].removeprefix("Bearer ")
        operation = OPERATIONS[name]
        numbers = [next(_numbers) for _ in range(COMMANDS)]
        requests = [msgspec.convert(asked(number), operation.request) for number in numbers]
        self.keeper._authorizer = self.authorizers[authorizer]
        self.watch.seconds, began = 0.0, time.perf_counter()
        for number, request in zip(numbers, requests, strict=True):
            key = None if operation.key == "none" else f"k{number}"
            call = Call(session=self.identify(token), request_id=f"r{number}", idempotency_key=key)
            self.dispatch(operation, request, call)
        return time.perf_counter() - began, self.watch.seconds

    def appends(self, spent: dict[bool, list[float]]) -> None:
        """Appends of one event each, in turns with an admission before it and without; adds the seconds of each."""
        session = self.plane.wired.authorizer.identify(self.plane.acme.headers["authorization"].removeprefix("Bearer "))
        assert session is not None
        store, new_id, actor = self.plane.store, self.plane.wired.mint, gatekeeper.actor(session)
        decided = admission.Decided("compute:projects:create", "compute-tenant/acme", True, "allowed", {})
        event = admission.Admitted(gatekeeper.caller(session), "r1", (decided,), "0" * 64)
        for number in range(2 * COMMANDS):
            admitted = number % 2 == 1
            made = project.Created(f"a{next(_numbers)}", "acme", {}, 0)
            changes, meta = (Change(new_id("prj"), 0, (made,)),), Meta(actor, None, correlation="r1")
            if admitted:
                id_ = new_id("adm")
                changes, meta = (Change(id_, 0, (event,)), *changes), Meta(actor, id_, correlation="r1")
            began = time.perf_counter()
            store.append(Append(changes, meta))
            spent[admitted].append(time.perf_counter() - began)


def report(place: Path) -> str:
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    appended: dict[bool, list[float]] = {True: [], False: []}
    with embedded.running(place / "admission") as dsn, given.plane(dsn, place) as plane:
        scene = Scene(plane)
        for _ in range(ROUNDS):
            for name in scene.commands:
                for authorizer in scene.authorizers:
                    whole, decided = scene.run(name, authorizer)
                    seconds[name, authorizer].append(whole)
                    seconds[name, f"{authorizer} decided"].append(decided)
            scene.appends(appended)
    each = {key: statistics.median(found) / COMMANDS * 1e6 for key, found in seconds.items()}
    beside, alone = (statistics.median(appended[admitted]) * 1e6 for admitted in (True, False))
    recorded = beside - alone
    rows = [
        (
            "recorded: an append of one event with its admission, and without, us",
            f"{beside:.0f}, {alone:.0f}",
        )
    ]
    for name in scene.commands:
        whole, decided, without = (each[name, which] for which in ("real", "real decided", "yes"))
        share = (decided + recorded) / whole
        rows.append(
            (
                f"{name}: us; decided, recorded, their share; us with an authorizer that says yes",
                f"{whole:.0f}; {decided:.0f}, {recorded:.0f}, {share:.1%}; {without:.0f}",
            )
        )
    return figures.table(f"the admission step of a command (medians of {ROUNDS} rounds of {COMMANDS})", rows)
