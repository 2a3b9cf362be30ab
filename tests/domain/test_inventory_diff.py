"""What changed between two inventories: by identity, never by place or the kernel's name (domain.md §4; O30, O32)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import given as made
from domain import inventory, inventory_diff
from domain.inventory import NodeInventory
from domain.inventory_diff import Change


def read(document: dict[str, Any]) -> NodeInventory:
    return NodeInventory.convert(document)


def cards() -> st.SearchStrategy[list[dict[str, Any]]]:
    card = st.fixed_dictionaries(
        {"uuid": st.integers(0, 5).map(lambda n: f"GPU-11111111-aaaa-4bbb-8ccc-00000000000{n}")},
        optional={
            "vbios": st.sampled_from(["1.0", "2.0"]),
            "numaNode": st.integers(0, 1),
            "migInstances": st.lists(
                st.fixed_dictionaries({"start": st.integers(0, 6), "profile": st.sampled_from(["1g.10gb", "2g.20gb"])}),
                max_size=3,
            ),
        },
    )
    return st.lists(card, max_size=4, unique_by=lambda c: c["uuid"])


def nics() -> st.SearchStrategy[list[dict[str, Any]]]:
    nic = st.fixed_dictionaries(
        {"mac": st.integers(0, 4).map(lambda n: f"9c:6b:00:12:34:5{n}"), "name": st.sampled_from(["eth0", "ens1"])},
        optional={
            "numaNode": st.integers(0, 1),
            "vfs": st.lists(st.fixed_dictionaries({"index": st.integers(0, 3)}), max_size=3),
        },
    )
    return st.lists(nic, max_size=3, unique_by=lambda n: n["mac"])


def disks() -> st.SearchStrategy[list[dict[str, Any]]]:
    disk = st.fixed_dictionaries(
        {"name": st.sampled_from(["sda", "sdb", "sdc"]), "sizeBytes": st.sampled_from([1, 2])},
        optional={"serial": st.sampled_from(["A", "B"])},
    )
    return st.lists(disk, max_size=4)


def documents() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "schema": st.just("NodeInventory/v1"),
            "system": st.fixed_dictionaries({}, optional={"biosVersion": st.sampled_from(["1", "2"])}),
            "gpus": cards(),
            "nics": nics(),
            "disks": disks(),
        }
    )


@given(documents(), documents())
def test_there_are_changes_exactly_where_a_hash_differs(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = read(one), read(other)
    found = inventory_diff.changes(before, after)
    was, now = inventory.section_hashes(before), inventory.section_hashes(after)
    differing = tuple(name for name in inventory.SECTIONS if was[name] != now[name])
    assert inventory_diff.sections(before, after) == differing
    assert {change.section for change in found} == set(differing)
    assert all(change.before != change.after for change in found)
    assert len({change.path for change in found}) == len(found)


@given(documents(), documents())
def test_the_way_back_is_the_way_there_turned_round(one: dict[str, Any], other: dict[str, Any]) -> None:
    back = inventory_diff.changes(read(other), read(one))
    assert [Change(c.section, c.path, c.after, c.before) for c in back] == list(
        inventory_diff.changes(read(one), read(other))
    )


@given(documents(), st.randoms())
def test_order_and_the_kernels_names_are_no_change(document: dict[str, Any], dice: Any) -> None:
    document["disks"] = []
    shuffled = copy.deepcopy(document)
    for name in ("gpus", "nics"):
        dice.shuffle(shuffled[name])
    for nic in shuffled["nics"]:
        nic["name"] = "renamed"
    assert inventory_diff.changes(read(document), read(shuffled)) == ()


def test_a_change_says_where_it_is_and_what_was_there() -> None:
    before, after = made.partitioned(2, 1), made.partitioned(2, 1)
    gone = after["gpus"].pop()
    card = after["gpus"][0]
    card["vbios"] = "96.00"
    card["migInstances"][0]["gi"] = 14
    after["nics"].append({"mac": "9c:6b:00:12:34:56", "vfs": [{"index": 0}]})
    after["system"]["serialNumber"] = "OTHER1"
    found = {c.path: (c.before, c.after) for c in inventory_diff.changes(read(before), read(after))}
    piece = card["migInstances"][0]["uuid"]
    assert found.pop(f"gpus[{gone['uuid']}]")[1] is None
    assert found == {
        "system.serialNumber": ("SN000001X", "OTHER1"),
        f"gpus[{card['uuid']}].vbios": (None, "96.00"),
        f"gpus[{card['uuid']}].migInstances[{piece}].gi": (7, 14),
        "nics[9c:6b:00:12:34:56]": (None, {"mac": "9c:6b:00:12:34:56", "vfs": [{"index": 0}]}),
    }


@pytest.mark.parametrize("name", ["sdb", "nvme0n1"])
def test_a_disk_that_got_another_name_is_the_same_disk(name: str) -> None:
    before = made.inventory() | {
        "disks": [{"name": "sda", "serial": "ZC1"}, {"name": "sdx", "wwn": "0x5000c500a1b2c3d4"}]
    }
    after = copy.deepcopy(before)
    after["disks"][0]["name"] = name
    assert inventory_diff.changes(read(before), read(after)) == ()


def test_the_first_inventory_is_all_new() -> None:
    found = inventory_diff.changes(None, read(made.inventory(gpus=1)))
    assert {change.before for change in found} == {None}
    assert inventory_diff.changes(None, None) == ()
