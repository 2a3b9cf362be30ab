"""Many leaves proved at once: each hash of the tree that they lack is given once, in the order of the leaves.

The leaves are added from the left; what lies between two of them is given as the perfect subtrees that cover the gap.
At the tree's size the root follows (RFC 6962 §2.1). Memory is the subtrees open at the right edge: one a height.
"""

from collections.abc import Iterator
from typing import Final

from domain import merkle

HEIGHTS: Final = 63
"""A tree has fewer than 2^63 leaves: log positions have 64 bits."""


def gap(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Height and first leaf of each perfect subtree that covers the leaves [begin, end), the largest that fit."""
    while begin < end:
        fits = (end - begin).bit_length() - 1
        height = min(fits, (begin & -begin).bit_length() - 1) if begin else fits
        yield height, begin
        begin += 1 << height


class Cover:
    """A tree that grows by leaves and by whole subtrees. `size` counts the leaves that it has so far."""

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[tuple[int, bytes]] = []

    def leaf(self, hashed: bytes) -> None:
        self._add(0, hashed)

    def fill(self, upto: int, hashes: bytes) -> bool:
        """Cover the leaves up to `upto`; False, and nothing done, where these are not as many hashes as that takes."""
        gaps = list(gap(self.size, upto))
        if len(hashes) != len(gaps) * merkle.HASH or upto < self.size:
            return False
        for number, (height, _) in enumerate(gaps):
            self._add(height, hashes[number * merkle.HASH : (number + 1) * merkle.HASH])
        return True

    def root(self) -> bytes:
        """The tree's hash at the size that it has now."""
        root: bytes | None = None
        for _, subtree in reversed(self._edge):
            root = subtree if root is None else merkle.node_hash(subtree, root)
        return merkle.EMPTY if root is None else root

    def _add(self, height: int, hashed: bytes) -> None:
        self.size += 1 << height
        while self._edge and self._edge[-1][0] == height:
            hashed = merkle.node_hash(self._edge.pop()[1], hashed)
            height += 1
        self._edge.append((height, hashed))
