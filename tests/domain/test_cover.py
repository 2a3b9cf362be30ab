"""Some leaves and the subtrees between them come to the same root as all leaves (RFC 6962 §2.1)."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import merkle
from domain.cover import Cover, gap


def leaves(size: int) -> list[bytes]:
    return [merkle.leaf_hash(b"%d" % number) for number in range(size)]


def tree_of(hashed: list[bytes]) -> tuple[merkle.Tree, bytes]:
    growing = merkle.Growing()
    for one in hashed:
        growing.append(one)
    root = growing.root()
    tiles = {(tile.level, tile.index): tile.hashes for tile in growing.changed()}
    return merkle.Tree(lambda level, index: tiles[level, index]), root


def hashes(tree: merkle.Tree, begin: int, end: int) -> bytes:
    return b"".join(tree.subtree(height, first) for height, first in gap(begin, end))


@given(st.integers(1, 700), st.data())
def test_any_choice_of_leaves_adds_up_to_the_root(size: int, data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=20)))
    hashed = leaves(size)
    tree, root = tree_of(hashed)
    cover = Cover()
    for index in chosen:
        assert cover.fill(index, hashes(tree, cover.size, index))
        cover.leaf(hashed[index])
    assert cover.fill(size, hashes(tree, cover.size, size))
    assert (cover.size, cover.root()) == (size, root)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_gap_is_covered_without_holes_by_few_subtrees(one: int, other: int) -> None:
    begin, end = sorted((one, other))
    at = begin
    for height, first in gap(begin, end):
        assert first == at
        assert first % (1 << height) == 0
        at += 1 << height
    assert at == end
    assert len(list(gap(begin, end))) <= 2 * (end - begin + 1).bit_length()


def test_a_leaf_that_is_another_or_elsewhere_gives_another_root() -> None:
    hashed = leaves(21)
    tree, root = tree_of(hashed)
    for index, leaf in ((7, hashed[8]), (8, hashed[7]), (7, sha256(b"").digest())):
        cover = Cover()
        cover.fill(index, hashes(tree, 0, index))
        cover.leaf(leaf)
        cover.fill(21, hashes(tree, index + 1, 21))
        assert cover.root() != root


@pytest.mark.parametrize(("upto", "handed"), [(5, b""), (5, bytes(32)), (4, bytes(96)), (0, bytes(32))])
def test_too_few_or_too_many_hashes_cover_nothing(upto: int, handed: bytes) -> None:
    cover = Cover()
    cover.leaf(bytes(32))
    assert not cover.fill(upto, handed)
    assert cover.size == 1


def test_a_tree_of_nothing_has_the_empty_root() -> None:
    assert Cover().root() == merkle.EMPTY
    assert Cover().fill(0, b"")
