"""All clients together: started, held still for a look at the log, brought to an end."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Final

from tests.torture.client import Client
from tests.torture.journal import Acknowledged
from tests.torture.plane import Serve

STILL_S: Final = 30.0
FINISH_S: Final = 30.0


class Load:
    """`tokens` are the clients' identities, one list each; each client has a random number generator of its own."""

    def __init__(self, serves: Sequence[Serve], pool_id: str, tokens: Sequence[Sequence[str]], rng: Random) -> None:
        self._clients = [
            Client(f"client-{n}", serves, pool_id, mine, Random(rng.random())) for n, mine in enumerate(tokens)
        ]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        for client in self._clients:
            client.stop()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nobody asks for anything inside; raises when a client does not come to rest, or has failed."""
        with ExitStack() as held:
            for client in self._clients:
                if not client.turn.acquire(timeout=STILL_S):
                    raise RuntimeError(f"a client has been waiting for its answer for over {STILL_S:.0f} s")
                held.callback(client.turn.release)
                if client.failure is not None:
                    raise RuntimeError("a client failed") from client.failure
            yield

    def finish(self) -> None:
        """Ask for nothing new, and get an answer to every open request, as far as one comes in time; inside `still`."""
        deadline = time.monotonic() + FINISH_S
        for client in self._clients:
            client.halt()
            client.finish(deadline)

    @property
    def acknowledged(self) -> list[Acknowledged]:
        return [given for client in self._clients for given in client.journal.acknowledged]

    @property
    def keys(self) -> dict[str, str]:
        """The Idempotency-Key of every attempt by its request id."""
        return dict(itertools.chain.from_iterable(client.journal.keys.items() for client in self._clients))

    @property
    def made(self) -> dict[str, str]:
        """The reservations that were granted, and a token that may look at each."""
        return dict(itertools.chain.from_iterable(client.journal.made.items() for client in self._clients))

    @property
    def wrong(self) -> list[str]:
        return [answer for client in self._clients for answer in client.journal.wrong]

    @property
    def outcomes(self) -> Counter[str]:
        return sum((client.journal.outcomes for client in self._clients), Counter())

    @property
    def granted(self) -> int:
        return sum(len(client.journal.acknowledged) for client in self._clients)

    @property
    def unanswered(self) -> list[str]:
        """Request ids of the attempts so far after which nobody knew."""
        return [request for client in self._clients for request in client.journal.unanswered]

    @property
    def open(self) -> int:
        """Requests that have no answer yet."""
        return sum(len(client.open) for client in self._clients)
