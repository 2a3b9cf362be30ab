"""A Merkle tree hashed as RFC 6962 §2.1 says, kept in tiles of 256 hashes as C2SP tlog-tiles keeps them.

Tile (L, n) holds the hashes of height 8L with numbers 256n and on: the leaves' own at L = 0, above that one for each
full tile below. The proofs are those of RFC 6962 §2.1.1-2.1.2, their verification that of RFC 9162 §2.1.3.2-2.1.4.2.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

HASH: Final = 32
HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
EMPTY: Final = sha256(b"").digest()
"""The root of a tree without leaves."""

Read = Callable[[int, int], bytes]
"""The hashes of a tile, one after the other, by level and index."""


class Lacking(ValueError):
    """What a tree of its size has to have, and its tiles do not."""


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


class Tile(Struct, frozen=True):
    """One row of hashes; a partial one has fewer than 256, and grows only at its end."""

    level: int
    index: int
    hashes: bytes


def partial(size: int) -> list[tuple[int, int, int]]:
    """The tiles at the right edge of a tree of this size that are not full: level, index and how many hashes."""
    edge = []
    level = 0
    while size:
        if width := size % WIDTH:
            edge.append((level, size // WIDTH, width))
        size //= WIDTH
        level += 1
    return edge


class Growing:
    """The right edge of a growing tree: takes leaf hashes, gives the tiles that they fill, and the root at any time."""

    def __init__(self, size: int = 0, read: Read | None = None) -> None:
        """Go on from a tree of `size` leaves, whose partial tiles `read` gives. Raises Lacking."""
        self.size = size
        self._edge: list[list[bytes]] = []
        self._full: list[Tile] = []
        self._grown: set[int] = set()
        for level, index, width in partial(size):
            assert read is not None, "a tree that is not new has tiles"
            hashes = read(level, index)[: width * HASH]
            if len(hashes) != width * HASH:
                raise Lacking(f"tile {level}/{index} holds {len(hashes) // HASH} hashes of {width}")
            self._row(level).extend(_split(hashes))

    def append(self, leaf: bytes) -> None:
        """One more leaf, by its hash."""
        number, self.size = self.size, self.size + 1
        level = 0
        while True:
            row = self._row(level)
            row.append(leaf)
            if len(row) < WIDTH:
                self._grown.add(level)
                return
            self._full.append(Tile(level, number // WIDTH, b"".join(row)))
            leaf = _perfect(row)
            row.clear()
            number //= WIDTH
            level += 1

    def changed(self) -> list[Tile]:
        """The tiles that are new or have grown since this was last asked."""
        full, self._full = self._full, []
        grown, self._grown = self._grown, set()
        return [*full, *(tile for tile in self.edge() if tile.level in grown)]

    def edge(self) -> list[Tile]:
        """The tiles that are not full."""
        return [Tile(level, index, b"".join(self._row(level))) for level, index, _ in partial(self.size)]

    def root(self) -> bytes:
        """The tree's hash as it is now: the perfect subtrees at its edge, joined from the right."""
        root: bytes | None = None
        for row in self._edge:
            for subtree in reversed(_subtrees(row)):
                root = subtree if root is None else node_hash(subtree, root)
        return EMPTY if root is None else root

    def _row(self, level: int) -> list[bytes]:
        while len(self._edge) <= level:
            self._edge.append([])
        return self._edge[level]


class Tree:
    """A tree as its tiles say: the root and the proofs at any size up to its own. What it has read is not read again.

    `keep` tiles are remembered, 40 KB each.
    """

    def __init__(self, read: Read, keep: int = 64) -> None:
        self._read = read
        self._keep = keep
        self._tiles: OrderedDict[tuple[int, int], list[list[bytes]]] = OrderedDict()

    def root(self, size: int) -> bytes:
        return self._range(0, size) if size else EMPTY

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """PATH(index, D[size]) of RFC 6962 §2.1.1."""
        if not 0 <= index < size:
            raise ValueError(f"leaf {index} is not in a tree of {size}")
        path: list[bytes] = []
        begin, end = 0, size
        while end - begin > 1:
            middle = begin + _split_at(end - begin)
            if index < middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(begin, middle))
                begin = middle
        return path[::-1]

    def consistency(self, old: int, new: int) -> list[bytes]:
        """PROOF(old, D[new]) of RFC 6962 §2.1.2; nothing to show between equal sizes, or from an empty tree."""
        if not 0 <= old <= new:
            raise ValueError(f"a tree of {new} is no later than one of {old}")
        if old in (0, new):
            return []
        proof: list[bytes] = []
        begin, end = 0, new
        while end != old:
            middle = begin + _split_at(end - begin)
            if old <= middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(begin, middle))
                begin = middle
        if begin:
            proof.append(self._range(begin, end))
        return proof[::-1]

    def _range(self, begin: int, end: int) -> bytes:
        """MTH(D[begin:end]) of a stretch that is a subtree: `begin` is a multiple of the power of two that holds it."""
        count = end - begin
        if count & (count - 1) == 0:
            return self.subtree(count.bit_length() - 1, begin)
        middle = begin + _split_at(count)
        return node_hash(self._range(begin, middle), self._range(middle, end))

    def subtree(self, height: int, begin: int) -> bytes:
        """The perfect subtree of 2**height leaves that starts with leaf `begin`."""
        level, within = divmod(height, HEIGHT)
        number = begin >> height
        index, place = divmod(number << within, WIDTH)
        rows = self._tile(level, index)
        place >>= within
        if within >= len(rows) or place >= len(rows[within]):
            raise Lacking(f"tile {level}/{index} ends before the tree does")
        return rows[within][place]

    def _tile(self, level: int, index: int) -> list[list[bytes]]:
        at = (level, index)
        if at not in self._tiles:
            self._tiles[at] = _pyramid(_split(self._read(level, index)))
            if len(self._tiles) > self._keep:
                self._tiles.popitem(last=False)
        self._tiles.move_to_end(at)
        return self._tiles[at]


def included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path leads from leaf number `index` to the root of `size` leaves (RFC 9162 §2.1.3.2)."""
    if not 0 <= index < size:
        return False
    number, last, found = index, size - 1, leaf
    for step in path:
        if last == 0:
            return False
        if number & 1 or number == last:
            found = node_hash(step, found)
            while not number & 1 and number:
                number, last = number >> 1, last >> 1
        else:
            found = node_hash(found, step)
        number, last = number >> 1, last >> 1
    return last == 0 and found == root


def consistent(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the tree of `new` leaves begins with that of `old` (RFC 9162 §2.1.4.2)."""
    if not 0 <= old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY
    steps = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not steps or len(proof) == 0:
        return False
    number, last = old - 1, new - 1
    while number & 1:
        number, last = number >> 1, last >> 1
    before = after = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if number & 1 or number == last:
            before, after = node_hash(step, before), node_hash(step, after)
            while not number & 1 and number:
                number, last = number >> 1, last >> 1
        else:
            after = node_hash(after, step)
        number, last = number >> 1, last >> 1
    return last == 0 and before == old_root and after == new_root


def _split_at(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + HASH] for at in range(0, len(hashes), HASH)]


def _pyramid(row: list[bytes]) -> list[list[bytes]]:
    """Every perfect subtree over a row of hashes, by height."""
    rows = [row]
    while len(row) > 1:
        row = [node_hash(row[at], row[at + 1]) for at in range(0, len(row) - 1, 2)]
        rows.append(row)
    return rows


def _perfect(row: list[bytes]) -> bytes:
    return _pyramid(row)[-1][0]


def _subtrees(row: list[bytes]) -> list[bytes]:
    """The perfect subtrees that a partial row falls into, from the left."""
    found, begin = [], 0
    for height in range(HEIGHT - 1, -1, -1):
        if len(row) & (1 << height):
            found.append(_perfect(row[begin : begin + (1 << height)]))
            begin += 1 << height
    return found
