"""The check of an export with nothing but the export (api.md §6): what verifies and decodes, wired to the domain."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from eventsourcing.persistence import MapperDeserialisationError

from adapters import audit_key
from adapters.postgres.mapper import outline
from domain import export, export_check
from domain.event import Recorded
from domain.export_header import Trust
from domain.export_report import Verdict


def check(lines: Iterable[bytes], kept: str | None = None, vkey: str | None = None) -> Verdict:
    """Check an export's lines, against a checkpoint that was kept and by a key that is known, if there are any."""
    return export_check.check(lines, Trust(audit_key.verify, _decoded, vkey, kept))


def lines(path: Path) -> Iterator[bytes]:
    """A file's lines, each cut where it is longer than any line may be."""
    with path.open("rb") as file:
        while line := file.readline(export.MOST_LINE + 1):
            yield line


def _decoded(stream: str, version: int, topic: str, state: bytes, position: int, recorded_at: int) -> Recorded:
    try:
        return outline(stream, version, topic, state, position, recorded_at)
    except MapperDeserialisationError as wrong:
        raise ValueError(str(wrong)) from wrong
