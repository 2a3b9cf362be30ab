"""The log's tree against RFC 6962 said plainly, and against roots that certificate transparency's own tests know."""

from hashlib import sha256

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import leaf, merkle

# The eight leaves and the roots over the first n of them that the reference implementations of RFC 6962 are tested by.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
SIZES = st.integers(0, 700) | st.sampled_from([255, 256, 257, 511, 512, 513])


def naive(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 §2.1, over leaf hashes."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return sha256(b"\x01" + naive(leaves[:half]) + naive(leaves[half:])).digest()


def naive_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962 §2.1.1."""
    if len(leaves) == 1:
        return []
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    if index < half:
        return [*naive_path(index, leaves[:half]), naive(leaves[half:])]
    return [*naive_path(index - half, leaves[half:]), naive(leaves[:half])]


def naive_proof(old: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 6962 §2.1.2."""
    if old == len(leaves):
        return [] if whole else [naive(leaves)]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    if old <= half:
        return [*naive_proof(old, leaves[:half], whole), naive(leaves[half:])]
    return [*naive_proof(old - half, leaves[half:], False), naive(leaves[:half])]


def hashes(count: int) -> list[bytes]:
    return [merkle.leaf_hash(str(n).encode()) for n in range(count)]


def grown(leaves: list[bytes]) -> tuple[merkle.Growing, dict[tuple[int, int], bytes]]:
    growing, tiles = merkle.Growing(), {}
    for one in leaves:
        growing.append(one)
    tiles = {(tile.level, tile.index): tile.hashes for tile in growing.changed()}
    return growing, tiles


def tree(leaves: list[bytes]) -> merkle.Tree:
    tiles = grown(leaves)[1]
    return merkle.Tree(lambda level, index: tiles[level, index])


@pytest.mark.parametrize("size", range(9))
def test_the_roots_of_the_known_leaves(size):
    leaves = [merkle.leaf_hash(data) for data in LEAVES[:size]]
    assert grown(leaves)[0].root().hex() == ROOTS[size]
    assert tree(leaves).root(size).hex() == ROOTS[size]


@given(SIZES, st.data())
@settings(deadline=None)
def test_a_tree_that_was_put_down_and_taken_up_grows_as_if_it_never_was(size, data):
    leaves = hashes(size)
    growing, tiles = merkle.Growing(), {}

    def read(level: int, index: int) -> bytes:
        return tiles[level, index]

    for n, one in enumerate(leaves):
        growing.append(one)
        if n % 97 == data.draw(st.integers(0, 96)) if size < 40 else n % 97 == 3:
            tiles.update({(tile.level, tile.index): tile.hashes for tile in growing.changed()})
            growing = merkle.Growing(growing.size, read)
    tiles.update({(tile.level, tile.index): tile.hashes for tile in growing.changed()})
    assert growing.root() == naive(leaves)
    assert tiles == grown(leaves)[1]


@given(SIZES.filter(bool), st.data())
@settings(deadline=None)
def test_every_proof_of_inclusion_is_the_one_of_the_rfc_and_leads_to_the_root(size, data):
    leaves, index = hashes(size), data.draw(st.integers(0, size - 1))
    larger = tree(leaves + hashes(data.draw(st.integers(0, 300))))
    path, root = larger.inclusion(index, size), larger.root(size)
    assert path == naive_path(index, leaves)
    assert root == naive(leaves)
    assert merkle.included(leaves[index], index, size, path, root)
    other = data.draw(st.integers(0, size - 1))
    assert merkle.included(leaves[index], other, size, path, root) == (other == index)
    assert not merkle.included(leaves[index], index, size, [*path, root], root)
    assert not path or not merkle.included(leaves[index], index, size, path[:-1], root)
    assert not merkle.included(leaves[index], index, size, path, merkle.EMPTY)


@given(SIZES, st.data())
@settings(deadline=None)
def test_every_proof_of_consistency_is_the_one_of_the_rfc_and_holds(size, data):
    leaves, old = hashes(size), data.draw(st.integers(0, size))
    whole = tree(leaves)
    proof, before, after = whole.consistency(old, size), whole.root(old), whole.root(size)
    assert proof == (naive_proof(old, leaves) if old else [])
    assert merkle.consistent(old, before, size, after, proof)
    if 0 < old < size:
        assert not merkle.consistent(old, merkle.EMPTY, size, after, proof)
        assert not merkle.consistent(old, before, size, merkle.EMPTY, proof)
        assert not merkle.consistent(old, before, size, after, proof[:-1])
        assert not merkle.consistent(old, before, size, after, [*proof, after])


def test_nothing_is_consistent_with_a_larger_tree():
    assert not merkle.consistent(2, merkle.EMPTY, 1, merkle.EMPTY, [])
    with pytest.raises(ValueError, match="no later"):
        tree(hashes(2)).consistency(3, 2)
    with pytest.raises(ValueError, match="not in a tree"):
        tree(hashes(2)).inclusion(2, 2)


def test_tiles_that_lack_hashes_are_no_tree():
    tiles = grown(hashes(5))[1]
    with pytest.raises(ValueError, match="tile 0/0 holds 4 hashes of 5"):
        merkle.Growing(5, lambda level, index: tiles[level, index][:-32])
    with pytest.raises(ValueError, match="ends before"):
        merkle.Tree(lambda level, index: tiles[level, index][:-32]).root(5)


@given(
    st.integers(1, 2**53 - 1),
    st.integers(0, 2**53 - 1),
    st.binary(max_size=9),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_leaf_is_rfc_8785_json(position, at, state, stream, name):
    one = leaf.of(position, at, state, stream, name, 7)
    said = {"position": position, "stream": stream, "version": 7, "type": name, "recordedAt": at}
    assert leaf.encoded(one) == rfc8785.dumps(said | {"sha256": sha256(state).hexdigest()})
    assert leaf.hashed(one) == sha256(b"\x00" + leaf.encoded(one)).digest()
