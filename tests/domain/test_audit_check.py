"""A log held against its evidence, without a database: whatever is done to it is found, and named where it is."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from domain import audit_check, audit_event, chain, leaf, site, tamper
from domain.event import Meta, Recorded

TENANTS = ((), ("acme",), ("cloud",), ("acme", "cloud"))
SIZE = 12
POSITIONS = [3 * n + 10 for n in range(SIZE)]


def logged(n: int, position: int, version: int = 1, whose: int | None = None) -> audit_check.Logged:
    state = b"stored bytes of %d" % n
    said = leaf.Leaf(position, 1790 + n, sha256(state).hexdigest(), f"site_{n}", "site.renamed.1", version)
    event = site.Renamed("a", "b", "root")
    tenants = TENANTS[(n if whose is None else whose) % len(TENANTS)]
    meta = Meta("identity:acme/alice", correlation="req")
    recorded = Recorded(f"site_{n}", version, event, meta, f"evt_{n}", position, 1790 + n, tenants=tenants)
    return audit_check.Logged(said, leaf.hashed(said), state, recorded)


LOG = [logged(n, position) for n, position in enumerate(POSITIONS)]
FILED = [audit_check.Filed(n, one.leaf.position, one.hash) for n, one in enumerate(LOG)]


def links() -> list[chain.Link]:
    heads: dict[str, chain.Head] = {}
    made = []
    for n, one in enumerate(LOG):
        assert one.recorded is not None
        for tenant in one.recorded.tenants:
            event = audit_event.of(one.recorded, one.leaf.sha256, tenant)
            head = heads[tenant] = chain.link(event, heads.get(tenant, chain.Head()))
            made.append(chain.Link(tenant, head.sequence, one.leaf.position, n, bytes.fromhex(head.hash)))
    return made


LINKS = links()


def faults(
    log: list[audit_check.Logged], filed: list[audit_check.Filed] = FILED, linked: list[chain.Link] = LINKS
) -> list[str]:
    told: list[str] = []
    check = audit_check.Check(told.append)
    leaves = list(check.compare(sorted(log, key=lambda one: one.leaf.position), filed, linked))
    check.explain([])
    known = [one.hash for one in filed if one.hash is not None]
    assert len(known) < len(filed) or leaves == known, "the tree is that of the recorded leaves, whatever the log says"
    return told


def test_a_log_as_it_was_recorded_has_no_fault() -> None:
    assert faults(LOG) == []


PLACES = st.integers(0, SIZE - 1)


@given(PLACES)
def test_an_event_removed_is_missing_and_its_links_have_none(n: int) -> None:
    told = faults([*LOG[:n], *LOG[n + 1 :]])
    assert told[0] == f"position {POSITIONS[n]}: the event recorded as leaf {n} is missing"
    assert len(told) == 1 + len(TENANTS[n % len(TENANTS)])


@given(PLACES, st.integers(0, 3), st.integers(-11, 3 * SIZE))
def test_an_event_slipped_in_is_the_only_fault(n: int, whose: int, offset: int) -> None:
    position = 12 + offset - offset % 3
    told = faults([*LOG, logged(100 + n, position, whose=whose)])
    assert told == [
        f"position {position} (site.renamed.1 of site_{100 + n} version 1): the event was slipped in, "
        "no leaf records it"
    ]


@given(PLACES, PLACES)
def test_events_that_changed_places_are_each_named_with_where_they_stood(n: int, other: int) -> None:
    log = list(LOG)
    log[n], log[other] = logged(n, POSITIONS[other]), logged(other, POSITIONS[n])
    told = faults(log)
    for which, was in ((n, POSITIONS[n]), (other, POSITIONS[other])):
        said = [one for one in told if f"of site_{which} " in one and one.endswith(f"recorded at position {was}")]
        assert said or n == other


@given(st.lists(st.tuples(PLACES, st.sampled_from(["remove", "change", "move"])), min_size=1, max_size=5))
def test_of_several_faults_none_hides_another(done: list[tuple[int, str]]) -> None:
    log = dict(enumerate(LOG))
    todo = dict(done)
    for n, what in todo.items():
        if what == "remove":
            del log[n]
        else:
            log[n] = logged(n, POSITIONS[n] + 1) if what == "move" else logged(n, POSITIONS[n], version=1000)
    told = faults(list(log.values()))
    for n, what in todo.items():
        missing = f"position {POSITIONS[n]}: the event recorded as leaf {n} is missing" in told
        changed = any(
            f"of site_{n} version 1000): the event is not the one recorded as leaf {n}" in one for one in told
        )
        assert changed if what == "change" else missing
        assert what != "move" or any(one.endswith(f"recorded at position {POSITIONS[n]}") for one in told)


@given(st.integers(0, len(LINKS) - 1))
def test_a_link_removed_is_named_and_the_chain_goes_on(n: int) -> None:
    gone = LINKS[n]
    (told,) = faults(LOG, linked=[*LINKS[:n], *LINKS[n + 1 :]])
    assert told.endswith(f"the chain of {gone.tenant_id} has no link for it (sequence {gone.sequence})")


@given(st.integers(0, len(LINKS) - 1), st.integers(0, 255))
def test_a_bit_flipped_in_a_link_is_one_fault(n: int, bit: int) -> None:
    link = LINKS[n]
    hash = (int.from_bytes(link.hash) ^ 1 << bit).to_bytes(32)
    for spoilt in (replace(link, hash=hash), replace(link, leaf=link.leaf ^ 1 << bit % 63)):
        (told,) = faults(LOG, linked=[*LINKS[:n], spoilt, *LINKS[n + 1 :]])
        assert told.startswith(f"chain of {link.tenant_id}, sequence {link.sequence}")


@given(PLACES)
def test_a_leaf_that_is_lost_is_no_fault_of_its_event(n: int) -> None:
    assert faults(LOG, [*FILED[:n], audit_check.Filed(n, None, None), *FILED[n + 1 :]]) == []


@given(PLACES, st.integers(0, 255))
def test_which_bit_was_flipped_is_told(n: int, bit: int) -> None:
    one = LOG[n]
    recorded = one.hash
    state = bytearray(one.state)
    state[0] ^= 1 << bit % 8
    for changed, what in (
        (replace(one.leaf, version=one.leaf.version ^ 1 << bit % 63), "version reads"),
        (replace(one.leaf, recorded_at=one.leaf.recorded_at ^ 1 << bit % 63), "recordedAt reads"),
        (replace(one.leaf, stream="r" + one.leaf.stream[1:]), "stream reads rite_"),
        (replace(one.leaf, type="site.renamed.0"), "type reads site.renamed.0, it was site.renamed.1"),
    ):
        assert (tamper.told(changed, one.state, recorded) or "").startswith(what)
    spoilt = replace(one.leaf, sha256=sha256(state).hexdigest())
    assert (tamper.told(spoilt, bytes(state), recorded) or "").startswith(
        f"byte 0 of the stored bytes reads {state[0]}"
    )
    flipped = (int.from_bytes(recorded) ^ 1 << bit).to_bytes(32)
    assert tamper.told(one.leaf, one.state, flipped) == "one bit of the recorded hash was flipped"
    assert tamper.told(replace(one.leaf, version=4), one.state, recorded) is None
