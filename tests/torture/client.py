"""A client that creates, cancels and releases reservations at random while everything around it dies.

A request without an answer stays open: it is sent again, as it was, until there is one.
"""

import itertools
import json
import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from tests.torture.journal import Asked, Journal, acknowledged
from tests.torture.line import Answer, Line, Lost, Unreached
from tests.torture.plane import Serve

THINK_S: Final = (0.005, 0.06)
DAY_MS: Final = 86_400_000
DAYS_AHEAD: Final = 30
KEEP: Final = 20
"""Reservations of one client at once; more would fill the pool."""
OPEN: Final = 20
"""Requests of one client without an answer, from which on it asks for nothing new."""
NOES: Final = frozenset({"ILLEGAL_TRANSITION", "CONFLICT", "DOUBLE_BOOKED"})
"""What a rival or the reservation's own course may be the reason of; any other refusal is wrong here."""


class Client:
    """One thread. Who holds `turn` holds the client still, between two requests."""

    def __init__(self, name: str, serves: Sequence[Serve], pool_id: str, tokens: Sequence[str], rng: Random) -> None:
        self.journal = Journal()
        self.open: list[Asked] = []
        self.turn = threading.Lock()
        self.failure: BaseException | None = None
        self._name = name
        self._lines = [Line(serve) for serve in serves]
        self._pool_id = pool_id
        self._tokens = itertools.cycle(tokens)
        self._rng = rng
        self._numbers = itertools.count()
        self._live: dict[str, Asked] = {}
        self._granted: dict[str, Asked] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Ask for nothing new any more."""
        self._stop.set()

    def stop(self) -> None:
        self.halt()
        if self._thread.is_alive():
            self._thread.join()
        for line in self._lines:
            line.close()

    def finish(self, deadline: float) -> None:
        """Get an answer to everything that is open; the caller holds the turn."""
        while self.open and time.monotonic() < deadline:
            self._attempt(self._reopened())
            time.sleep(THINK_S[0])

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._rng.uniform(*THINK_S)):
                with self.turn:
                    if not self._stop.is_set():
                        self._attempt(self._next())
        except BaseException as problem:
            self.failure = problem

    def _next(self) -> Asked:
        if self.open and (self._rng.random() < 0.3 or len(self.open) >= OPEN):
            return self._reopened()
        if self._granted and self._rng.random() < 0.05:
            return self._rng.choice(list(self._granted.values()))
        if self._live and (self._rng.random() < 0.4 or len(self._live) >= KEEP):
            return self._ending()
        return self._creating()

    def _reopened(self) -> Asked:
        return self.open.pop(self._rng.randrange(len(self.open)))

    def _creating(self) -> Asked:
        """Most begin some day ahead; what begins now keeps the controllers and the agents busy."""
        body: dict[str, Any] = {
            "poolId": self._pool_id,
            "devices": [{"class": "gpu", "count": self._rng.choice((1, 1, 2, 4))}],
            "durationSeconds": 3600,
            "nodes": self._rng.choice((1, 1, 1, 2)),
        }
        if self._rng.random() < 0.6:
            body["startsAt"] = int(time.time() * 1000) + self._rng.randint(1, DAYS_AHEAD) * DAY_MS
        key = f"{self._name}-{next(self._numbers)}"
        return Asked(key, "/v1/reservations", json.dumps(body).encode(), next(self._tokens))

    def _ending(self) -> Asked:
        """What begins ahead is cancelled; of what begins now nobody knows how far it has come."""
        id = self._rng.choice(list(self._live))
        made = self._live[id]
        verb = "cancel" if b"startsAt" in made.body else self._rng.choice(("cancel", "release"))
        return Asked("", f"{made.path}/{id}/{verb}", b"{}", made.token)

    def _attempt(self, asked: Asked) -> None:
        request = f"{self._name}-try-{next(self._numbers)}"
        self.journal.keys[request] = asked.key
        try:
            answer = self._rng.choice(self._lines).send(asked, request)
        except Unreached:
            self._later(asked, "not reached")
        except Lost:
            self.journal.unanswered.append(request)
            self._later(asked, "no answer")
        else:
            self._take(asked, request, answer)

    def _later(self, asked: Asked, why: str) -> None:
        self.journal.outcomes[why] += 1
        self.open.append(asked)

    def _take(self, asked: Asked, request: str, answer: Answer) -> None:
        """A 503 may have been recorded all the same: the connection to the database broke, and nobody knows."""
        if answer.status < 300:
            self._granting(asked, request, answer)
        elif answer.status == 503:
            self.journal.unanswered.append(request)
            self._later(asked, "503")
        elif answer.status == 429:
            self._later(asked, "429")
        else:
            self._refused(asked, request, answer)

    def _granting(self, asked: Asked, request: str, answer: Answer) -> None:
        given = acknowledged(request, asked.key, answer.headers, answer.body)
        self.journal.acknowledged.append(given)
        self.journal.outcomes["replayed" if given.replayed else asked.path.rpartition("/")[2]] += 1
        if not asked.key:
            self._live.pop(given.stream, None)
        elif asked.key not in self._granted:
            self._granted[asked.key] = asked
            self._live[given.stream] = asked
            self.journal.made[given.stream] = asked.token

    def _refused(self, asked: Asked, request: str, answer: Answer) -> None:
        """What was granted once cannot be refused later under the same key."""
        shown = json.loads(answer.body)
        code = str(shown.get("code"))
        self.journal.outcomes[code] += 1
        if answer.status != 409 or code not in NOES or asked.key in self._granted:
            self.journal.wrong.append(f"{request}: {asked.path} was answered {answer.status}: {shown}")
        if code == "ILLEGAL_TRANSITION" and not shown["allowed"]:
            self._live.pop(asked.path.split("/")[3], None)
