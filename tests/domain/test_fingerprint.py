"""Which machine an inventory is of (domain.md §3; cases O28, O29, O31)."""

from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import fingerprint as identity
from domain.inventory import NodeInventory

UUID_A = "8a6b1c2d-3e4f-4a5b-9c6d-7e8f90a1b2c3"
SERIAL = "EXS4711-09"
MACS = ("9c:6b:00:12:34:56", "9c:6b:00:12:34:57")
GPU = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
AMI_BLOCK = {
    "serialNumber": "To Be Filled By O.E.M.",
    "productUuid": "03000200-0400-0500-0006-000700080009",
}


def node(
    uuid: str | None = None, serial: str | None = None, macs: tuple[str, ...] = (), gpus: tuple[str, ...] = ()
) -> NodeInventory:
    system = {"productUuid": uuid, "serialNumber": serial}
    return NodeInventory.convert(
        {
            "schema": "NodeInventory/v1",
            "system": {name: value for name, value in system.items() if value is not None},
            "nics": [{"mac": mac} for mac in macs],
            "gpus": [{"uuid": gpu} for gpu in gpus],
        }
    )


def taken(found: NodeInventory) -> tuple[str, ...]:
    return identity.fingerprint(found).identifiers


def test_identifiers_are_tagged_sorted_and_hashed_line_by_line() -> None:
    found = identity.fingerprint(node(UUID_A, SERIAL, MACS, (GPU,)))
    assert found.identifiers == (
        "gpu:11111111AAAA4BBB8CCC000000000001",
        "mac:9C6B00123456",
        "mac:9C6B00123457",
        "serial:EXS471109",
        "uuid:8A6B1C2D3E4F4A5B9C6D7E8F90A1B2C3",
    )
    assert found.fingerprint == sha256("\n".join(found.identifiers).encode()).hexdigest()
    assert found.trusted


@pytest.mark.parametrize(
    "serial",
    [
        "To Be Filled By O.E.M.",
        "to be filled by o.e.m.",
        "To be filled by O.E.M.To be fill",
        "To Be Filled By O.E.M. To Be Filled By O.E.M.",
        "To be fil",
        "Default string",
        "DEFAULT STRING",
        "System Serial Number",
        "Not Specified",
        "Not Present",
        "Not Settable",
        "None",
        "NULL",
        "N/A",
        "[N/A]",
        "REDACTED",
        "Unknown",
        "0123456789",
        "123456789",
        "1234",
        "ABCD",
        "abcd",
        "SerNum0",
        "SerNum3",
        "<BAD INDEX>",
        "0",
        "0000000000000",
        "00-00-00",
        "   ",
        "........",
    ],
)
def test_o28_a_factory_placeholder_is_no_serial(serial: str) -> None:
    assert identity.is_placeholder(serial)
    assert taken(node(serial=serial)) == ()


@pytest.mark.parametrize("serial", ["EXS4711-09", "12345", "ABCDE", "To4711", "10000000", "SerNumber7", "NULL7"])
def test_a_real_serial_is_kept(serial: str) -> None:
    assert len(taken(node(serial=serial))) == 1


@pytest.mark.parametrize(
    "uuid",
    [
        "03000200-0400-0500-0006-000700080009",
        "00020003-0004-0005-0006-000700080009",
        "00010002-0003-0004-0005-000600070008",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-ffff-ffff-ffff-ffffffffffff",
        "f8c28570-854b-0000-0000-000000000000",
        "Not Present",
        "Not Settable",
    ],
)
def test_o28_a_placeholder_uuid_is_no_identifier(uuid: str) -> None:
    assert taken(node(uuid=uuid)) == ()


def test_o28_two_boards_with_the_same_placeholders_are_two_by_their_macs_or_gpus() -> None:
    first = identity.fingerprint(node(**_system(AMI_BLOCK), macs=MACS[:1]))
    second = identity.fingerprint(node(**_system(AMI_BLOCK), macs=MACS[1:]))
    assert first.fingerprint != second.fingerprint
    assert not set(first.identifiers) & set(second.identifiers)


def test_o28_nothing_but_placeholders_gives_no_fingerprint() -> None:
    assert identity.fingerprint(node(**_system(AMI_BLOCK))) == identity.Fingerprint(None, False, ())


def _system(block: dict[str, str]) -> dict[str, Any]:
    return {"uuid": block["productUuid"], "serial": block["serialNumber"]}


def test_o29_a_uuid_shared_with_another_machine_does_not_make_them_one() -> None:
    first = identity.fingerprint(node(UUID_A, None, MACS[:1], (GPU,)))
    second = identity.fingerprint(node(UUID_A, None, MACS[1:], (GPU[:-1] + "2",)))
    shared = set(first.identifiers) & set(second.identifiers)
    assert first.fingerprint != second.fingerprint
    assert shared == {"uuid:" + UUID_A.replace("-", "").upper()}


def test_o29_an_identifier_known_to_be_shared_counts_for_neither() -> None:
    shared = "uuid:" + UUID_A.replace("-", "").upper()
    left = identity.fingerprint(node(UUID_A, None, MACS), excluding=[shared])
    assert left == identity.fingerprint(node(macs=MACS))
    assert not left.trusted


@pytest.mark.parametrize(
    "mac",
    [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "fa:4b:7f:11:22:33",
        "02:00:00:11:22:33",
        "01:00:5e:11:22:33",
        "a0:00:02:20:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:11:22:33",
    ],
)
def test_o31_an_odd_mac_is_no_identifier(mac: str) -> None:
    assert taken(node(macs=(mac,))) == ()


def test_o31_the_port_to_the_bmc_is_no_identifier() -> None:
    bmc = {"schema": "NodeInventory/v1", "nics": [{"mac": MACS[0], "bmcLink": True}]}
    assert taken(NodeInventory.convert(bmc)) == ()


def test_o31_upper_and_lower_case_are_one_machine() -> None:
    lower = node(UUID_A, SERIAL.lower(), MACS, (GPU,))
    upper = node(UUID_A.upper(), SERIAL, tuple(m.upper() for m in MACS), (GPU.upper(),))
    assert identity.fingerprint(lower) == identity.fingerprint(upper)


@given(st.permutations(MACS))
def test_o30_order_changes_no_fingerprint(macs: list[str]) -> None:
    assert identity.fingerprint(node(SERIAL, macs=tuple(macs))) == identity.fingerprint(node(SERIAL, macs=MACS))


@pytest.mark.parametrize(
    ("found", "trusted"),
    [
        (node(UUID_A), False),
        (node(macs=MACS), False),
        (node(macs=MACS, gpus=(GPU,)), True),
        (node(UUID_A, SERIAL), True),
        (node(UUID_A, serial=UUID_A), False),
        (node("00112233-4455-6677-8899-9c6b00123456", macs=MACS), False),
        (node("00112233-4455-6677-8899-9c6b00123456", SERIAL, MACS), True),
        (node("00112233-4455-6677-8899-9c6b00123456", macs=MACS, gpus=(GPU,)), True),
    ],
)
def test_trust_takes_two_kinds_that_do_not_repeat_each_other(found: NodeInventory, trusted: bool) -> None:
    assert identity.fingerprint(found).trusted is trusted


@pytest.mark.parametrize(
    ("uuid", "serial"),
    [
        ("4c4c4544-0035-4e10-8034-c7c04f524332", "G5N4RC2"),
        ("44454c4c-3500-104e-8034-c7c04f524332", "G5N4RC2"),
        ("37383638-3330-5355-4538-313358345330", "USE813X4S0"),
        ("00000000-0000-4a00-8000-0012ab34cd56", "12AB34CD56"),
    ],
)
def test_a_uuid_that_holds_the_serial_is_not_independent_of_it(uuid: str, serial: str) -> None:
    found = identity.fingerprint(node(uuid, serial))
    assert len(found.identifiers) == 2
    assert not found.trusted


@given(st.uuids(version=4), st.permutations(range(16)), st.sampled_from(["", "VMware-", "ec2"]))
def test_a_serial_that_repeats_the_uuid_in_any_byte_order_is_not_independent(
    uuid: UUID, order: list[int], prefix: str
) -> None:
    serial = prefix + bytes(uuid.bytes[i] for i in order).hex("-", 1)
    assert not identity.fingerprint(node(str(uuid), serial)).trusted
