"""A file on its way to a server, a piece at a time, with a line of progress on a terminal."""

import os
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import click

from adapters.cli import client, progress

PIECE_BYTES: Final = 2**20


def upload(
    api: client.Client, verb: str, path: str, file: Path, headers: Mapping[str, str] | None = None
) -> client.Answer:
    """Send the file as the body of one request; of a file that grows meanwhile what it was at first."""
    with _opened(file) as stream, progress.Progress("upload", sys.stderr, line=progress.sent) as shown:
        size = os.fstat(stream.fileno()).st_size
        content = client.Content(size, _pieces(stream, file, size, shown))
        return api.send(verb, path, headers=headers, content=content)


def digest(file: Path) -> tuple[str, int]:
    """SHA-256 in hex, and size, of a file."""
    known = sha256()
    with _opened(file) as stream, progress.Progress("sha256", sys.stderr, line=progress.sent) as shown:
        size = os.fstat(stream.fileno()).st_size
        for piece in _pieces(stream, file, size, shown):
            known.update(piece)
    return known.hexdigest(), size


def _pieces(stream: BinaryIO, file: Path, size: int, shown: progress.Progress) -> Iterator[bytes]:
    done = 0
    while done < size:
        piece = stream.read(min(PIECE_BYTES, size - done))
        if not piece:
            raise click.ClickException(f"{file} became shorter while it was read")
        done += len(piece)
        yield piece
        shown(done, size - done)


def _opened(file: Path) -> BinaryIO:
    try:
        stream = file.open("rb")
    except OSError as wrong:
        raise click.ClickException(f"{file} cannot be read: {wrong.strerror}") from None
    if not file.is_file():
        stream.close()
        raise click.ClickException(f"{file} is no file; its size must be known before it is sent")
    return stream
