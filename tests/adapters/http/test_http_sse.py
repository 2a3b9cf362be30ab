"""A stream goes on while its client takes it, and holds its slot no longer."""

import asyncio
from typing import Any

import pytest

from adapters.http import sse
from adapters.http.slots import Slots
from adapters.http.threads import Workers


class Feed:
    """A log that never ends."""

    def behind(self) -> bool:
        return True

    def read(self) -> list[int]:
        return [1]


class Client:
    """Takes so many messages, then none, without leaving."""

    def __init__(self, take: int) -> None:
        self.sent: list[Any] = []
        self._take = take

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) > self._take:
            await asyncio.Event().wait()


def run(client: Client, slots: Slots) -> None:
    async def answer() -> None:
        workers = Workers(1, 4)
        try:
            stream = sse.Streaming(Feed(), workers, "acme", lambda _: b"data: {}\n\n", slots=slots)
            await asyncio.wait_for(stream({}, client.receive, client.send), 20)  # type: ignore[arg-type]
        finally:
            workers.close()

    asyncio.run(answer())


@pytest.mark.parametrize("take", [1, 2, 5])
def test_a_client_that_never_reads_is_cut_off_and_frees_its_slot(monkeypatch: pytest.MonkeyPatch, take: int) -> None:
    monkeypatch.setattr(sse, "STALL_SECONDS", 0.01)
    slots, client = Slots("event streams", most=1, of_one=1), Client(take)
    run(client, slots)
    assert len(client.sent) == take + 1
    assert client.sent[-1]["more_body"], "it is cut off, not ended"
    slots.check("acme")


def test_a_stream_ends_when_its_time_is_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SECONDS", 0.0)
    client = Client(1000)
    run(client, Slots("event streams", most=1, of_one=1))
    assert not client.sent[-1]["more_body"]
