"""Verifies log, chains, tree and checkpoints of a database against each other, in one snapshot (api.md §6)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from heapq import merge
from operator import itemgetter
from typing import Any, Final, LiteralString

import psycopg
from eventsourcing.persistence import MapperDeserialisationError
from msgspec import Struct

from adapters.postgres import evidence, incarnation
from adapters.postgres.mapper import outline
from domain import audit_check, chain, checkpoint, leaf, merkle

AT_ONCE: Final = {"log": 500, "links": 2_000, "leaves": 20, "notes": 200}
"""Rows of each answer that are held: a tile is 10 KB, and an inventory can be 100."""

_FIRST, _END = -(2**63), 2**63 - 1

_LEAVES: LiteralString = "SELECT index, hashes, positions FROM audit_tiles WHERE level = 0 ORDER BY index"
_LINKS: LiteralString = """
SELECT tenant_id, sequence, position, leaf, hash FROM audit_chain ORDER BY position, tenant_id
"""
_NOTES: LiteralString = "SELECT size, note FROM audit_checkpoints ORDER BY size"
_WIDTHS: LiteralString = """
SELECT count(*), coalesce(max(index) + 1, 0), coalesce(sum(length(hashes) / 32), 0)::bigint
FROM audit_tiles WHERE level = 0
"""
_ABOVE: LiteralString = "SELECT level, index FROM audit_tiles WHERE level <> 0 ORDER BY level, index"
_LAST: LiteralString = """
SELECT coalesce(positions[cardinality(positions)], 0) FROM audit_tiles WHERE level = 0 ORDER BY index DESC LIMIT 1
"""
_UPTO: LiteralString = "SELECT count(*) FROM stored_events WHERE notification_id <= %s"
_LATER: LiteralString = "SELECT count(*) FROM stored_events WHERE notification_id > %s"

Connection = psycopg.Connection[Any]
Progress = Callable[[int, int], object]
Verify = Callable[[bytes, bytes, bytes], bool]


class Report(Struct, frozen=True):
    """What was looked at. `later` events came after what is taken in; `root` is that of the `leaves` as recorded."""

    events: int
    links: int
    leaves: int
    root: bytes
    checkpoints: int
    signed: int
    later: int
    faults: int


class Verifier:
    """Tells every fault, and counts. Notes are verified with `keys`, each by the one that signed it.

    `kept` are notes that somebody kept apart from the database.
    """

    def __init__(
        self,
        connection: Connection,
        tell: audit_check.Tell,
        keys: Sequence[checkpoint.Key],
        verify: Verify,
        kept: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._verify = verify
        self._kept = kept
        self._told = tell
        self._faults = self._notes = self._signed = 0
        self._origin = ""
        self._former: dict[str, int] = {}
        self._full: set[tuple[int, int]] = set()

    def run(self, progress: Progress = lambda *_: None) -> Report:
        """Read everything once; `progress` hears how many events were looked at, and how many are left."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return self._run(progress)

    def _run(self, progress: Progress) -> Report:
        self._origin = self._log_is()
        former = incarnation.formers(self._connection)
        self._former = {checkpoint.origin(name): size for name, size in former.items()}
        size, upto = self._bounds()
        check, tree = audit_check.Check(self._tell), merkle.Growing()
        notes = audit_check.Ahead(merge(self._cursor("notes", _NOTES), self._apart(), key=itemgetter(0)))
        self._signed_upto(0, notes, tree)
        links = (chain.Link(*row) for row in self._cursor("links", _LINKS))
        for hash in check.compare(self._log(_FIRST, upto), self._filed(size), links):
            tree.append(hash)
            if tree.size % merkle.WIDTH == 0:
                self._above(tile for tile in tree.changed() if len(tile.hashes) == merkle.WIDTH * merkle.HASH)
                progress(check.events, max(0, size - tree.size))
            self._signed_upto(tree.size, notes, tree)
        self._above(tree.edge())
        progress(check.events, 0)
        self._signed_upto(_END, notes, tree)
        self._superfluous()
        if check.lacks:
            check.explain(self._log(upto, _END))
        later = _number(self._connection.execute(_LATER, (upto,)))
        return Report(check.events, check.links, tree.size, tree.root(), self._notes, self._signed, later, self._faults)

    def _tell(self, fault: str) -> None:
        self._faults += 1
        self._told(fault)

    def _bounds(self) -> tuple[int, int]:
        """How many leaves there are, and up to which position. Where progress and tiles disagree, the log decides."""
        told = self._progress()
        row = self._connection.execute(_WIDTHS).fetchone()
        assert row is not None
        tiles, end, hashes = row
        last = _number(self._connection.execute(_LAST))
        if told is None:
            return hashes, last
        whole = tiles == end and hashes == told.size
        if whole and last == told.position:
            return hashes, last
        good = _number(self._connection.execute(_UPTO, (told.position,))) == told.size
        if whole:
            self._tell(f"progress reads position {told.position}, the last leaf's is {last}")
        elif not good and tiles == end:
            self._tell(f"progress reads {told.size} leaves, the tiles hold {hashes}")
        return (told.size, told.position) if good or tiles != end else (hashes, last)

    def _log_is(self) -> str:
        try:
            return checkpoint.origin(evidence.incarnation(self._connection))
        except merkle.Lacking as fault:
            self._tell(str(fault))
            return ""

    def _progress(self) -> evidence.Progress | None:
        try:
            return evidence.progress(self._connection)
        except merkle.Lacking as fault:
            self._tell(str(fault))
            return None

    def _cursor(self, name: str, sql: LiteralString, params: tuple[int, ...] = ()) -> Iterator[Any]:
        """A long answer, a stretch at a time."""
        with closing(self._connection.cursor(f"audit_{name}", binary=True)) as cursor:
            cursor.itersize = AT_ONCE[name]
            yield from cursor.execute(sql, params)

    def _log(self, after: int, upto: int) -> Iterator[audit_check.Logged]:
        for row in self._cursor("log", evidence.LOG, (after, upto)):
            yield self._logged(*row)

    def _logged(
        self, stream: str, version: int, topic: str, state: bytes, position: int, at: int
    ) -> audit_check.Logged:
        said = leaf.Leaf(position, at, sha256(state).hexdigest(), stream, topic, version)
        try:
            recorded = outline(stream, version, topic, state, position, at)
        except MapperDeserialisationError as fault:
            self._tell(f"position {position}: {fault}")
            recorded = None
        return audit_check.Logged(said, leaf.hashed(said), state, recorded)

    def _filed(self, size: int) -> Iterator[audit_check.Filed]:
        """Every leaf in order; those of a tile that is missing, or too short, are lost."""
        expected = 0
        for index, hashes, positions in self._cursor("leaves", _LEAVES):
            if not expected <= index < -(-size // merkle.WIDTH):
                self._tell(f"tile 0/{index} belongs to no tree of {size} leaves")
                continue
            yield from self._lost(expected, index, size)
            yield from self._tile(index, hashes, positions, min(merkle.WIDTH, size - index * merkle.WIDTH))
            expected = index + 1
        yield from self._lost(expected, -(-size // merkle.WIDTH), size)

    def _lost(self, first: int, end: int, size: int) -> Iterator[audit_check.Filed]:
        for index in range(first, end):
            self._tell(f"tile 0/{index} is missing")
            for place in range(index * merkle.WIDTH, min(size, (index + 1) * merkle.WIDTH)):
                yield audit_check.Filed(place, None, None)

    def _tile(
        self, index: int, hashes: bytes, positions: Sequence[int | None], width: int
    ) -> Iterator[audit_check.Filed]:
        if len(hashes) != width * merkle.HASH:
            self._tell(f"tile 0/{index} has {len(hashes)} bytes of {width} hashes")
        if len(positions) != width:
            self._tell(f"tile 0/{index} has {len(positions)} positions of {width}")
        for place in range(width):
            hash = hashes[place * merkle.HASH : (place + 1) * merkle.HASH]
            position = positions[place] if place < len(positions) else None
            if position is None and place < len(positions):
                self._tell(f"leaf {index * merkle.WIDTH + place}: it has no position")
            whole = len(hash) == merkle.HASH
            yield audit_check.Filed(index * merkle.WIDTH + place, position, hash if whole else None)

    def _above(self, tiles: Iterable[merkle.Tile]) -> None:
        """Hold the tiles that follow from the leaves against those that are stored."""
        for tile in tiles:
            if tile.level == 0:
                continue
            self._full.add((tile.level, tile.index))
            stored = evidence.tile(self._connection, tile.level, tile.index)
            if not stored.hashes:
                self._tell(f"tile {tile.level}/{tile.index} is missing")
            elif stored.hashes != tile.hashes:
                self._tell(f"tile {tile.level}/{tile.index} does not follow from the leaves below it")
            if stored.positions:
                self._tell(f"tile {tile.level}/{tile.index} has positions, which only leaves have")

    def _superfluous(self) -> None:
        for level, index in self._connection.execute(_ABOVE).fetchall():
            if (level, index) not in self._full:
                self._tell(f"tile {level}/{index} belongs to no tree of this size")

    def _apart(self) -> list[tuple[int, str]]:
        """The notes that were kept elsewhere, by the size that they say."""
        told = []
        for note in self._kept:
            try:
                told.append((checkpoint.parse(note).size, note))
            except (checkpoint.Unsound, UnicodeError) as fault:
                self._tell(f"the checkpoint that was kept: {fault}")
        return sorted(told)

    def _signed_upto(self, size: int, notes: audit_check.Ahead[tuple[int, str]], tree: merkle.Growing) -> None:
        while notes.next is not None and notes.next[0] <= size:
            self._note(*notes.take(), tree)

    def _note(self, size: int, note: str, tree: merkle.Growing) -> None:
        self._notes += 1
        try:
            said = self._opened(note)
        except (checkpoint.Unsound, UnicodeError) as fault:
            self._tell(f"checkpoint of size {size}: {fault}")
            return
        shared = self._former.get(said.origin, -1)
        if said.origin != self._origin and shared < 0:
            self._tell(f"checkpoint of size {size}: it is of {said.origin}, this log is {self._origin}")
        elif said.origin != self._origin and said.size > shared:
            self._tell(f"checkpoint of size {size}: of {said.origin} only {shared} leaves were restored from a backup")
        elif said.size != size:
            self._tell(f"checkpoint of size {size}: the note says {said.size}")
        elif size != tree.size:
            self._tell(f"checkpoint of size {size}: there are only {tree.size} leaves")
        elif said.root != tree.root():
            self._tell(f"checkpoint of size {size}: the root that was signed is not that of the leaves")

    def _opened(self, note: str) -> checkpoint.Checkpoint:
        if not self._keys:
            return checkpoint.parse(note)
        for key in self._keys:
            if checkpoint.by(note, key):
                self._signed += 1
                return checkpoint.opened(note, key, self._verify)
        return checkpoint.opened(note, self._keys[0], self._verify)


def _number(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row is not None else 0
