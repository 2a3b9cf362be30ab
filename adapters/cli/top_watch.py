"""How `better-compute top` stays live: it follows the events, and asks again for the lists that they touch."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from adapters.cli import client, top_reading, top_state, troubles
from adapters.cli.top_reading import QUESTIONS
from adapters.cli.top_state import State

EVERY_SECONDS: Final = 5.0
"""Between two looks at a list to which nothing happened."""

POLL_SECONDS: Final = 2.0
"""The same where events do not come by themselves."""

LEAST_SECONDS: Final = 0.5
"""Between two looks at one list, however much happens to it."""

SHARE: Final = 10
"""A list that takes long, of a large fleet, is asked for a tenth of the time at most."""

AGAIN_SECONDS: Final = 1.0
"""After a failure."""

_BEING_ASKED: Final = float("inf")


class Watch:
    """Two threads: one asks, one listens. `woken` is called when `state` is a new one.

    `over` says why there will never be an answer: nobody knows the token.
    """

    def __init__(
        self, api: client.Client, listener: client.Client, scope: str | None, woken: Callable[[], None]
    ) -> None:
        self.state = State(server=api.server)
        self.over: troubles.Trouble | None = None
        self._asker = top_reading.Asker(api, scope)
        self._listener = listener
        self._woken = woken
        self._changed = threading.Condition()
        self._due = dict.fromkeys(QUESTIONS, 0.0)
        self._not_before = dict.fromkeys(QUESTIONS, 0.0)
        self._seen = 0

    def start(self) -> None:
        threading.Thread(target=self._ask, name="top-asking", daemon=True).start()

    def now(self) -> int:
        return self._asker.now()

    def _ask(self) -> None:
        while not self._begun():
            time.sleep(AGAIN_SECONDS)
        threading.Thread(target=self._listen, name="top-listening", daemon=True).start()
        while True:
            name, seen = self._next()
            began = time.monotonic()
            try:
                self._put(self._asker.ask(name, seen))
                self._plan(name, time.monotonic() - began)
            except troubles.Trouble as trouble:
                self._failed(trouble)
                self._plan(name, 0.0)
                time.sleep(AGAIN_SECONDS)

    def _begun(self) -> bool:
        try:
            self._put(self._asker.first())
        except troubles.Trouble as trouble:
            self.over = trouble if trouble.status == 401 else None
            self._failed(trouble)
            return False
        return True

    def _next(self) -> tuple[str, int]:
        """The list that has been due for longest, once one is, and the position that it must show."""
        with self._changed:
            while True:
                name = min(self._due, key=self._due.__getitem__)
                left = self._due[name] - time.monotonic()
                if left <= 0:
                    self._due[name] = _BEING_ASKED
                    return name, self._seen
                self._changed.wait(min(left, EVERY_SECONDS))

    def _plan(self, name: str, took: float) -> None:
        """When it is asked for again; what happened to it meanwhile has set that already."""
        rest = EVERY_SECONDS if self.state.following else POLL_SECONDS
        with self._changed:
            now = time.monotonic()
            self._not_before[name] = now + max(LEAST_SECONDS, SHARE * took)
            if name in self.state.refused:
                self._due[name] = _BEING_ASKED
            elif self._due[name] == _BEING_ASKED:
                self._due[name] = now + max(rest, SHARE * took)
            else:
                self._due[name] = self._not_before[name]

    def _touch(self, type_: str, position: int) -> None:
        with self._changed:
            self._seen = max(self._seen, position)
            for name, question in QUESTIONS.items():
                if type_.startswith(question.touched) and name not in self.state.refused:
                    self._due[name] = max(self._not_before[name], time.monotonic())
            self._changed.notify_all()

    def _listen(self) -> None:
        """Each stream lasts a minute; the next goes on where it ended."""
        feed = top_reading.Feed(self._told)
        while True:
            began = time.monotonic()
            try:
                self._following(True)
                feed.again()
                where = {"Last-Event-ID": feed.last} if feed.last else {}
                query = self._asker.stream()
                self._listener.send("GET", top_reading.STREAM, query=query, headers=where, sink=feed)
                pause = LEAST_SECONDS if time.monotonic() - began < LEAST_SECONDS else 0.0
            except troubles.Trouble as trouble:
                self._following(False)
                if trouble.unseen:
                    self._put(lambda state: top_state.refused(state, "events"))
                    return
                self._ask_all()
                pause = EVERY_SECONDS if isinstance(trouble, troubles.Refused) else AGAIN_SECONDS
            time.sleep(pause)

    def _told(self, event: Any) -> None:
        self._put(lambda state: top_state.happened(state, event))
        self._touch(event["type"], event["position"])

    def _ask_all(self) -> None:
        """The stream broke: perhaps nothing answers any more."""
        with self._changed:
            for name in QUESTIONS:
                if name not in self.state.refused:
                    self._due[name] = min(self._due[name], max(self._not_before[name], time.monotonic()))
            self._changed.notify_all()

    def _following(self, now: bool) -> None:
        if self.state.following != now:
            self._put(lambda state: replace(state, following=now))

    def _failed(self, trouble: troubles.Trouble) -> None:
        why = trouble.message.partition("\n")[0]
        self._put(lambda state: replace(state, trouble=why))

    def _put(self, fold: top_reading.Fold) -> None:
        with self._changed:
            self.state = fold(self.state)
        self._woken()
