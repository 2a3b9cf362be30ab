"""An answer in JSON Lines is made while it is sent, and ends where its client does."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adapters.http import lines
from adapters.http.slots import Slots
from adapters.http.threads import Workers
from domain import errors
from domain.operation import Answer


class Client:
    """Takes `take` pieces; then it leaves, or only stalls."""

    def __init__(self, take: int = 10**9, *, stalls: bool = False) -> None:
        self.sent: list[Any] = []
        self._take = take
        self._stalls = stalls
        self._left = asyncio.Event()

    async def receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) - 1 >= self._take:
            if self._stalls:
                await asyncio.Event().wait()
            self._left.set()
            await asyncio.sleep(0)

    @property
    def complete(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Source:
    """Counts what is asked of it."""

    def __init__(self, pieces: int, fails: Exception | None = None) -> None:
        self.made = 0
        self._pieces = pieces
        self._fails = fails

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self._pieces):
            self.made += 1
            yield b"%d\n" % number
        if self._fails:
            raise self._fails


def run(client: Callable[[], Client], source: Source, position: int | None = 7) -> Client:
    async def answer() -> Client:
        workers, there = Workers(2, 8), client()
        try:
            sent = lines.Lines(Answer(body=iter(source), position=position), workers, "acme")
            await sent({}, there.receive, there.send)  # type: ignore[arg-type]
        finally:
            workers.close()
        return there

    return asyncio.run(answer())


def test_all_of_it_is_sent_as_what_it_is() -> None:
    there = run(Client, Source(3))
    assert there.body == b"0\n1\n2\n"
    assert there.complete
    headers = dict(there.sent[0]["headers"])
    assert (headers[b"content-type"], headers[b"x-position"]) == (b"application/jsonl", b"7")


def test_nothing_more_is_made_for_a_client_that_left() -> None:
    source = Source(1000)
    there = run(lambda: Client(take=2), source)
    assert source.made < 6
    assert not there.complete


def test_a_client_that_does_not_take_it_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "STALL_SECONDS", 0.01)
    source = Source(1000)
    there = run(lambda: Client(take=2, stalls=True), source)
    assert source.made == 2
    assert not there.complete, "so that the client cannot take it for the whole"


def test_one_that_takes_all_day_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SECONDS", -1.0)
    assert not run(Client, Source(1000)).complete


def test_what_fails_on_the_way_leaves_it_incomplete() -> None:
    async def answer() -> Client:
        workers, there = Workers(1, 1), Client()
        source = Source(2, errors.Unavailable("the database is away"))
        await lines.Lines(Answer(body=iter(source)), workers, "acme")({}, there.receive, there.send)  # type: ignore[arg-type]
        workers.close()
        return there

    there = asyncio.run(answer())
    assert there.body == b"0\n1\n"
    assert not there.complete


def test_more_than_so_many_at_once_are_told_to_come_back_and_no_tenant_has_all_of_them() -> None:
    slots = Slots("exports", most=3, of_one=2)
    with slots.taken("acme"):
        slots.check("acme")
        with slots.taken("acme"):
            slots.check("globex")
            with pytest.raises(errors.Unavailable, match="your tenant has 2 exports open"):
                slots.check("acme")
            with slots.taken("globex"), pytest.raises(errors.Unavailable, match="too many exports"):
                slots.check("initech")
    slots.check("acme")


def test_an_export_takes_its_tenants_slot_while_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SLOTS", Slots("exports", most=8, of_one=0))
    with pytest.raises(errors.Unavailable):
        lines.Lines(Answer(body=iter([b""])), Workers(1, 1), "acme")
