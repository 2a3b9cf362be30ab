"""The NodeInventory document (domain.md §4; cases O30, O32, O45)."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from domain import errors, inventory
from domain.inventory import NodeInventory

GPU = "GPU-11111111-aaaa-4bbb-8ccc-00000000000"
MAC = "9c:6b:00:12:34:5"


def document(**sections: Any) -> dict[str, Any]:
    return {"schema": "NodeInventory/v1", **sections}


def read(**sections: Any) -> NodeInventory:
    return NodeInventory.convert(document(**sections))


def test_the_document_says_which_schema_it_has() -> None:
    with pytest.raises(errors.Invalid, match="schema"):
        NodeInventory.parse(b'{"gpus": []}')
    with pytest.raises(errors.Invalid, match="schema"):
        NodeInventory.parse(b'{"schema": "NodeInventory/v2"}')
    assert b'"schema":"NodeInventory/v1"' in inventory.encode(read())


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_malformed(content: bytes) -> None:
    with pytest.raises(errors.Malformed):
        NodeInventory.parse(content)


def test_a_document_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(errors.Invalid, match="at most"):
        NodeInventory.parse(b" " * (inventory.MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("sections", "field"),
    [
        ({"gpus": [{"uuid": GPU + "1"}, {"uuid": GPU + "1"}]}, "gpus[1].uuid"),
        ({"nics": [{"mac": MAC + "1"}, {"mac": MAC + "2"}, {"mac": MAC + "1"}]}, "nics[2].mac"),
        ({"disks": [{"wwn": "0x5000c500a1b2c3d4"}, {"wwn": "naa.5000C500A1B2C3D4"}]}, "disks[1].wwn"),
        ({"gpus": [{"uuid": "12"}]}, "gpus[0].uuid"),
        ({"nics": [{"mac": "9c:6b"}]}, "nics[0].mac"),
        ({"disks": [{"wwn": "?"}]}, "disks[0].wwn"),
        ({"gpus": [{"uuid": GPU + "1", "migInstances": [{"uuid": "?"}]}]}, "gpus[0].migInstances[0].uuid"),
        ({"cpu": {"threads": -1}}, "cpu.threads"),
        ({"cpu": {"threads": 1.5}}, "cpu.threads"),
        ({"system": {"serialNumber": "a\x00b"}}, "system.serialNumber"),
        ({"system": {"serialNumber": "a\n"}}, "system.serialNumber"),
        ({"system": {"serialNumber": "x" * 129}}, "system.serialNumber"),
        ({"system": {"serialNumber": None}}, "system.serialNumber"),
        ({"nics": [{"mac": MAC + "1", "name": None}]}, "nics[0].name"),
        ({"disks": [{"sizeBytes": 2**53}]}, "disks[0].sizeBytes"),
    ],
)
def test_what_is_wrong_is_refused_naming_the_field(sections: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        read(**sections)
    assert refused.value.field == field


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(errors.Invalid, match="unknown field `temperature`"):
        read(gpus=[{"uuid": GPU + "1", "temperature": 30}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"gpus": [{"uuid": GPU.lower() + "a"}]}, {"gpus": [{"uuid": GPU.upper() + "A"}]}),
        ({"gpus": [{"uuid": GPU[4:] + "a"}]}, {"gpus": [{"uuid": GPU + "a"}]}),
        ({"nics": [{"mac": MAC + "a"}]}, {"nics": [{"mac": "9C-6B-00-12-34-5A"}]}),
        ({"disks": [{"wwn": "0x5000c500a1b2c3d4"}]}, {"disks": [{"wwn": "naa.5000C500A1B2C3D4"}]}),
        ({"disks": [{"wwn": "eui.0025385b71b00a1e"}]}, {"disks": [{"wwn": "EUI.0025385B71B00A1E"}]}),
        (
            {"system": {"productUuid": "8A6B1C2D-3E4F-4A5B-9C6D-7E8F90A1B2C3"}},
            {"system": {"productUuid": "8a6b1c2d-3e4f-4a5b-9c6d-7e8f90a1b2c3"}},
        ),
    ],
)
def test_o45_letter_case_and_separators_make_no_second_thing(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert read(**one) == read(**other)
    assert inventory.document_hash(read(**one)) == inventory.document_hash(read(**other))


def test_o45_the_same_gpu_in_another_case_is_a_repeat() -> None:
    with pytest.raises(errors.Invalid, match="is already gpus"):
        read(gpus=[{"uuid": GPU + "a"}, {"uuid": (GPU + "a").upper()}])


NICS = [{"mac": f"{MAC}{n}", "name": f"eth{n}", "driver": "ice"} for n in range(5)]


@given(st.permutations(NICS), st.permutations([f"enp{n}s0" for n in range(5)]))
def test_o30_order_and_names_of_nics_change_no_hash(nics: list[dict[str, str]], names: list[str]) -> None:
    renamed = [{**nic, "name": name} for nic, name in zip(nics, names, strict=True)]
    hashes = inventory.section_hashes(read(nics=renamed))
    assert hashes == inventory.section_hashes(read(nics=NICS))


def test_o30_another_mac_changes_the_hash_of_nics_and_of_the_whole_only() -> None:
    before, after = read(nics=NICS), read(nics=[{**NICS[0], "mac": MAC + "9"}, *NICS[1:]])
    a, b = inventory.section_hashes(before), inventory.section_hashes(after)
    assert {name for name in a if a[name] != b[name]} == {"nics"}
    assert inventory.document_hash(before) != inventory.document_hash(after)


def test_o32_a_disk_that_has_an_identity_keeps_its_hash_under_another_name() -> None:
    disks = [{"name": "sda", "serial": "A", "sizeBytes": 1}, {"name": "sdb", "wwn": "eui.0025385b71b00a1e"}]
    swapped = [{**disks[0], "name": "sdb"}, {**disks[1], "name": "sda"}]
    assert inventory.document_hash(read(disks=disks)) == inventory.document_hash(read(disks=swapped[::-1]))


def test_the_whole_is_hashed_over_the_section_hashes() -> None:
    found = read(nics=NICS)
    sections = inventory.section_hashes(found)
    assert tuple(sections) == inventory.SECTIONS
    assert inventory.document_hash(found) == sha256(rfc8785.dumps(sections)).hexdigest()


def test_an_empty_section_and_a_missing_one_are_the_same() -> None:
    assert inventory.document_hash(read()) == inventory.document_hash(read(gpus=[], system={}, clock={}))


def test_a_document_reads_back_as_it_was_written() -> None:
    found = read(nics=NICS, gpus=[{"uuid": GPU + "1", "name": "", "memoryMiB": 81559}])
    assert NodeInventory.parse(inventory.encode(found)) == found
    assert b"null" not in inventory.encode(found)


printable = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=[chr(n) for n in (*range(32), 127)]),
    min_size=1,
    max_size=40,
)


@given(printable, printable, st.integers(0, 2**53 - 1), st.booleans())
def test_our_canonical_json_is_rfc_8785(model: str, serial: str, size: int, flag: bool) -> None:
    found = read(
        system={"serialNumber": serial, "productName": model},
        disks=[{"serial": serial, "model": model, "sizeBytes": size, "rotational": flag, "name": model}],
        gpus=[{"uuid": GPU + "1", "name": model, "memoryMiB": size % 1024, "migMode": "enabled"}],
    )
    for section in inventory.SECTIONS:
        value = getattr(found, section)
        assert inventory.canonical(value) == rfc8785.dumps(msgspec.to_builtins(value))


def test_no_field_of_the_clock_can_hold_the_time() -> None:
    """What changes at every look would make every report a new snapshot."""
    assert set(inventory.Clock.__struct_fields__) == {"synchronized", "service", "source", "timezone"}
