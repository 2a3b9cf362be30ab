"""The clients as processes: started once, given one job each at a time, ended by closing what they read from."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
GET_READY_S: Final = 0.3
END_S: Final = 5


class Run(NamedTuple):
    """What all clients did together in `seconds`; `cpu` in seconds of processor time, `micros` each one's latency."""

    outcomes: Counter[str]
    micros: list[int]
    cpu: float
    seconds: float

    def rate(self, outcome: str) -> float:
        return self.outcomes[outcome] / self.seconds


@contextmanager
def crew(clients: int) -> Iterator[list[subprocess.Popen[str]]]:
    with ExitStack() as stack:
        yield [stack.enter_context(_client()) for _ in range(clients)]


@contextmanager
def _client() -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "tests.bench.client"]
    client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield client
    finally:
        assert client.stdin is not None
        client.stdin.close()
        try:
            client.wait(END_S)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()


def run(clients: Sequence[subprocess.Popen[str]], jobs: Sequence[dict[str, Any]], seconds: float) -> Run:
    """Give every client its job, all to begin at once, and add up what they answer."""
    begin = time.monotonic() + GET_READY_S
    for client, job in zip(clients, jobs, strict=True):
        assert client.stdin is not None
        print(json.dumps({**job, "begin": begin, "seconds": seconds}), file=client.stdin, flush=True)
    outcomes: Counter[str] = Counter()
    micros: list[int] = []
    cpu = 0.0
    for client in clients:
        assert client.stdout is not None
        answer = json.loads(client.stdout.readline() or '{"problem": "a client died"}')
        if "problem" in answer:
            raise RuntimeError(answer["problem"])
        outcomes.update(answer["outcomes"])
        micros += answer["micros"]
        cpu += answer["cpu"]
    return Run(outcomes, micros, cpu, seconds)
