"""`better-compute iam`: policy decisions and the access file, on the spot."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from adapters.cli import access, tables


@click.group()
def iam() -> None:
    """Evaluate policies and check an access file, without a server."""


@iam.command()
@click.option("--explain", is_flag=True, help="say what is wrong, and where in the document")
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


@iam.command()
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@access.options
def check(as_json: bool, access_file: Path | None, data_dir: Path | None) -> None:
    """Check an access file as a server would at its start: exit 0 when it is good, else 1 with line and reason."""
    from adapters.iam import access_edit
    from domain import roles

    path = access.path(access_file, data_dir)
    try:
        file = access_edit.read(path, access.actions())
    except access_edit.EditError as problem:
        said = json.dumps({"valid": False, "error": str(problem)}) if as_json else f"error: {problem}"
        click.echo(said, err=not as_json)
        sys.exit(1)
    own = set(file.roles) - set(roles.BY_NAME)
    counts = {
        "digest": file.digest,
        "tenants": len(file.tenants),
        "identities": len(file.identities),
        "tokens": len(access_edit.held(file)),
        "delegations": len(file.delegations),
        "roles": len(own),
        "boundaries": len(file.boundaries),
        "relationships": len(file.relationships),
    }
    click.echo(json.dumps({"valid": True} | counts) if as_json else tables.record(counts))
