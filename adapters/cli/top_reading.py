"""What `better-compute top` asks a server, and the one snapshot of it all."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from adapters.cli import answers, client, top_state, troubles
from adapters.cli.top_state import Part, State

MOST_PAGES: Final = 20
BACK: Final = 1_000
"""Positions of the log before now in which to look for recent events."""

MOST_PLACES: Final = 10
"""Of those that wait, the oldest: each is asked for its place in the queue."""


class Question(NamedTuple):
    """A list: its path, the states of which it is asked for, whether the platform sees every tenant's.

    `touched` are the beginnings of the names of events after which it may have changed.
    """

    path: str
    touched: tuple[str, ...]
    states: tuple[str, ...] = ("",)
    of_fleet: bool = True


QUESTIONS: Final[Mapping[str, Question]] = {
    "capacity": Question("/v1/capacity", ("reservation.", "node.", "pool.", "offering.", "quota."), of_fleet=False),
    "pools": Question("/v1/pools", ("pool.",)),
    "reservations": Question(
        "/v1/reservations",
        ("reservation.",),
        ("pending", "awaiting-confirmation", "placed", "binding", "active", "releasing"),
    ),
    "nodes": Question("/v1/nodes", ("node.",)),
    "instances": Question(
        "/v1/instances", ("instance.",), ("pending", "provisioning", "running", "stopping", "unknown", "failed")
    ),
}
"""By the name of the part of the state that they fill."""

STREAM: Final = "/v1/events/stream"

Fold = Callable[[State], State]
"""What an answer makes of a state, which may be another by then than when it was asked for."""


class Asker:
    """Asks the questions, one after the other.

    `position` is that of the log in the first answer; `now` is the server's time. Each raises troubles.Trouble.
    """

    def __init__(self, api: client.Client, scope: str | None) -> None:
        self._api = api
        self._scope = scope
        self._ahead_ms = 0
        self._may_get = True
        self.position = 0

    def first(self) -> Fold:
        """Capacity, and from it whether to ask for the whole fleet: only who owns pools may be the platform.

        A tenant is not made to ask what would be refused, for refusals are kept in its audit log.
        """
        fold = self.ask("capacity")
        if self._scope is None:
            owner = any("total" in row for row in fold(State(server="")).rows("capacity"))
            self._scope = "fleet" if owner and self._sees_fleet() else "tenant"
        scope = self._scope
        return lambda state: replace(fold(state), scope=scope)

    def ask(self, name: str, seen: int = 0) -> Fold:
        """One list, or that the caller may not see it; `seen` is the position of which the answer must know."""
        question = QUESTIONS[name]
        rows: list[Any] = []
        whole = True
        try:
            for wanted in question.states:
                query = ({"state": wanted} if wanted else {}) | ({"waitFor": str(seen)} if seen else {})
                found, complete = self._pages(question, query)
                rows += found
                whole = whole and complete
        except troubles.Refused as refusal:
            if not refusal.unseen:
                raise
            return lambda state: answered(top_state.refused(state, name), self.now())
        if name == "capacity" and rows:
            self._set_clock(rows[0]["at"])
        if name == "reservations" and self._scope == "tenant":
            rows = self._placed(rows)
        part = Part(tuple(rows), whole)
        return lambda state: answered(top_state.told(state, name, part), self.now())

    def stream(self) -> dict[str, str]:
        """The query of the stream of events: it begins a little before the first answer."""
        after = {"after": str(max(0, self.position - BACK))}
        return after | ({"scope": "fleet"} if self._scope == "fleet" else {})

    def now(self) -> int:
        return _local() + self._ahead_ms

    def _placed(self, rows: list[Any]) -> list[Any]:
        """Each that waits tells its place itself, and to its tenant alone; what is refused once is not asked again."""
        places = {}
        waiting = sorted((row for row in rows if row["state"] == "pending"), key=lambda row: row["createdAt"])
        for row in waiting[:MOST_PLACES] if self._may_get else ():
            try:
                found = self._api.send("GET", f"{QUESTIONS['reservations'].path}/{row['id']}").thing
            except troubles.Refused as refusal:
                if not refusal.unseen:
                    raise
                self._may_get = False
                break
            places[row["id"]] = found["queuePosition"]
        return [{**row, "queuePosition": places.get(row["id"])} for row in rows]

    def _set_clock(self, at: int) -> None:
        """What is less than a second may as well be the way here."""
        ahead = at - _local()
        self._ahead_ms = ahead if abs(ahead) >= 1_000 else 0

    def _sees_fleet(self) -> bool:
        try:
            self._api.send("GET", QUESTIONS["reservations"].path, query={"scope": "fleet", "limit": "1"})
        except troubles.Refused as refusal:
            if not refusal.unseen:
                raise
            return False
        return True

    def _pages(self, question: Question, query: dict[str, str]) -> tuple[list[Any], bool]:
        rows: list[Any] = []
        if question.of_fleet:
            query = query | {"limit": "1000"} | ({"scope": "fleet"} if self._scope == "fleet" else {})
        for _ in range(MOST_PAGES):
            answer = self._api.send("GET", question.path, query=query)
            self.position = self.position or answer.position
            more, cursor = answer.page
            rows += more
            if not cursor:
                return rows, True
            query = query | {"cursor": cursor}
        return rows, False


class Feed:
    """A sink that tells the events of a stream as they come, and keeps the id of the last."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        self._told = told
        self._rest = b""
        self.last = ""

    def write(self, piece: bytes) -> None:
        *whole, self._rest = (self._rest + piece).split(b"\n\n")
        for block in whole:
            fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
            if b"data" in fields:
                self._told(_event(fields[b"data"]))
                self.last = fields.get(b"id", b"").decode("ascii", "replace")

    def flush(self) -> None:
        pass

    def again(self) -> None:
        """A new stream begins: what was left of the last one is nothing."""
        self._rest = b""


def _event(data: bytes) -> answers.Told:
    try:
        return answers.thing(answers.read(data))
    except (ValueError, RecursionError):
        raise troubles.Failed("an event of the stream is not JSON") from None


def answered(state: State, at: int) -> State:
    return replace(state, answered_at=at, trouble="")


def snapshot(api: client.Client, quick: client.Client, scope: str | None) -> State:
    """All of it once; raises troubles.Trouble. `quick` gives up soon: a stream of events has no end of its own."""
    asker = Asker(api, scope)
    state = asker.first()(State(server=api.server))
    for name in QUESTIONS:
        state = state if name == "capacity" else asker.ask(name)(state)
    found: list[Any] = []
    try:
        quick.send("GET", STREAM, query=asker.stream(), sink=Feed(found.append))
    except troubles.Refused as refusal:
        if refusal.unseen:
            state = top_state.refused(state, "events")
    except troubles.Failed:
        pass  # it has said all that there was to say
    for event in found:
        state = top_state.happened(state, event)
    return state


def _local() -> int:
    return round(time.time() * 1000)
