"""One client, a process of its own: takes jobs as JSON lines, does each for its seconds, answers with a line.

`{"kind": "http"}` creates reservations over one keep-alive connection, or with a `path` what is created there;
`{"kind": "sql"}` writes the same rows in plain transactions over one connection. All clients of a crew begin at one
instant of the machine's monotonic clock; with `every` each begins something that often, in seconds.
"""

import http.client
import itertools
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

REQUEST_S: Final = 10
TAG: Final = b"@@"
"""Stands in the template of a row for 22 characters that no other transaction has."""
NOW: Final = b"@now@"
"""Stands in a body for the epoch ms at which it is sent."""
Tally = tuple[Counter[str], list[int]]


def creating(job: dict[str, Any]) -> tuple[Callable[[], str], Callable[[], None]]:
    """A function that creates one reservation and says what came of it, and one that hangs up."""
    connection = http.client.HTTPConnection(job["host"], job["port"], timeout=REQUEST_S)
    connection.connect()
    template, path = json.dumps(job["body"]).encode(), job.get("path", "/v1/reservations")
    tokens = itertools.cycle(job["tokens"])

    def one() -> str:
        headers = {
            "authorization": f"Bearer {next(tokens)}",
            "content-type": "application/json",
            "idempotency-key": secrets.token_hex(12),
        }
        body = template.replace(NOW, str(time.time_ns() // 10**6).encode())
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        shown = answer.read()
        return str(json.loads(shown)["state"]) if answer.status == 201 else f"HTTP {answer.status}"

    return one, connection.close


def writing(job: dict[str, Any]) -> tuple[Callable[[], str], Callable[[], None]]:
    """A function that writes the rows of one thing under fresh ids, as one transaction or as many as they came in."""
    import psycopg

    connection = psycopg.connect(job["dsn"], autocommit=True)
    transactions = [
        [
            (sql, [bytes.fromhex(cell["bytes"]) if isinstance(cell, dict) else cell for cell in cells])
            for sql, cells in statements
        ]
        for statements in job.get("transactions") or [job["statements"]]
    ]

    def transaction(statements: list[tuple[str, list[Any]]], made: str) -> None:
        connection.execute("BEGIN")
        for sql, cells in statements:
            connection.execute(sql, [_fresh(cell, made) for cell in cells], prepare=True)
        connection.execute("COMMIT")

    def one() -> str:
        made = secrets.token_hex(11)
        for statements in transactions:
            with connection.pipeline() if job["pipeline"] else nullcontext():
                transaction(statements, made)
        return "written"

    return one, connection.close


def _fresh(cell: Any, made: str) -> Any:
    """The sample's cell with its ids replaced."""
    if isinstance(cell, bytes):
        return cell.replace(TAG, made.encode())
    return cell.replace(TAG.decode(), made) if isinstance(cell, str) else cell


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Over and over until its time is up, or as many `times` as the job says."""
    one, close = (creating if job["kind"] == "http" else writing)(job)
    outcomes: Counter[str] = Counter()
    micros: list[int] = []
    time.sleep(max(0.0, job["begin"] - time.monotonic()))
    until, cpu = job["begin"] + job["seconds"], time.process_time()
    most, every = job.get("times", sys.maxsize), job.get("every", 0.0)
    try:
        while (began := time.monotonic()) < until and len(micros) < most:
            if (early := job["begin"] + len(micros) * every - began) > 0:
                time.sleep(early)
                began += early
            outcomes[one()] += 1
            micros.append(round((time.monotonic() - began) * 1e6))
    finally:
        close()
    return {"outcomes": outcomes, "micros": micros, "cpu": time.process_time() - cpu}


def main() -> None:
    for line in sys.stdin:
        try:
            answer = work(json.loads(line))
        except Exception as problem:
            answer = {"problem": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
