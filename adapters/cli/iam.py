"""`better-compute iam`: policy decisions and the access file, on the spot."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import click


@click.group()
def iam() -> None:
    """Decide by policies, and check an access file, on the spot."""


@iam.command()
@click.option("--explain", is_flag=True, help="an error says what is wrong, and where in its document")
def evaluate(explain: bool) -> None:
    """Answer questions of the policy language: one JSON object a line on standard input, one answer a line.

    A question has action, resource, grants and, if it likes, boundaries and context. A line that is none is
    answered with the error MALFORMED; the exit status is then 1.
    """
    from adapters.iam import questions

    malformed = False
    out = sys.stdout.buffer
    for line in _lines(sys.stdin.buffer, questions.MAX_LINE):
        answered = questions.answer(line, explain=explain)
        malformed |= answered.get("error") == "MALFORMED"
        out.write(questions.written(answered))
        out.flush()
    sys.exit(1 if malformed else 0)


def _lines(source: BinaryIO, most: int) -> Iterator[bytes]:
    """Lines as they come, without their ends; of one that is too long its first `most` bytes and one more."""
    while line := source.readline(most + 1):
        yield line.rstrip(b"\r\n")
        while len(line) > most and not line.endswith(b"\n"):
            line = source.readline(most + 1)
