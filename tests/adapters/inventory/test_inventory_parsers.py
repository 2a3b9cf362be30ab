"""What tools print, read into one inventory; anything else is one clear error (domain.md §4, "Inventory")."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.inventory import merge
from adapters.inventory.fragment import InventoryError
from domain import inventory
from domain.inventory import NodeInventory

FIXTURES = Path(__file__).parents[2] / "fixtures" / "inventory"
FILES = {
    "smi-h100-mig.xml": "nvidia-smi",
    "smi-list-h100-mig.txt": "nvidia-smi",
    "smi-mig-lgi.txt": "nvidia-smi",
    "smi-topo.txt": "nvidia-smi",
    "smi-nvlink.txt": "nvidia-smi",
    "dmidecode-server.txt": "dmidecode",
    "dmidecode-placeholder.txt": "dmidecode",
    "lsblk-multipath-raid.json": "lsblk",
    "lshw-server.json": "lshw",
    "lxd-sriov.json": "lxd",
    "ip-link.json": "ip-link",
    "redfish-system.json": "redfish",
    "redfish-bmc-nic.json": "redfish",
    "ironic-usb-first.json": "ironic",
}
A = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
B = "GPU-22222222-aaaa-4bbb-8ccc-000000000002"


def read(*files: str) -> NodeInventory:
    return merge.build(merge.PARSERS[FILES[f]]((FIXTURES / f).read_bytes(), f) for f in files)


def parse(kind: str, content: bytes | str) -> NodeInventory:
    raw = content.encode() if isinstance(content, str) else content
    return merge.build([merge.PARSERS[kind](raw, "given")])


def test_the_xml_gives_gpus_and_the_numbers_of_their_mig_instances() -> None:
    found = read("smi-h100-mig.xml")
    first, second = found.gpus
    assert (first.uuid, first.name, first.pci_bus_id, first.memory_mib, first.mig_mode) == (
        A,
        "NVIDIA H100 80GB HBM3",
        "0000:1b:00.0",
        81559,
        "enabled",
    )
    assert [(m.gi, m.ci, m.memory_mib, m.multiprocessors) for m in first.mig_instances] == [
        (2, 0, 40448, 60),
        (9, 0, 9984, 16),
    ]
    assert (second.mig_mode, second.serial, second.mig_instances) == ("disabled", None, ())
    assert (found.software.nvidia_driver, found.software.cuda) == ("550.90.07", "12.4")


def test_outputs_of_one_machine_complete_each_other() -> None:
    files = ["smi-list-h100-mig.txt", "smi-h100-mig.xml", "smi-mig-lgi.txt", "smi-topo.txt", "smi-nvlink.txt"]
    found = read(*files)
    assert [(m.gi, m.profile, m.start, m.uuid) for m in found.gpus[0].mig_instances] == [
        (2, "3g.40gb", 4, "MIG-aaaaaaaa-0001-5000-8000-000000000001"),
        (9, "1g.10gb", 0, "MIG-aaaaaaaa-0002-5000-8000-000000000002"),
    ]
    assert [(n.gpu_uuid, n.links, n.group) for n in found.topology.nvlinks] == [(A, 2, 0), (B, 2, 0)]
    assert inventory.document_hash(read(*reversed(files))) == inventory.document_hash(found)


def test_a_list_from_before_driver_470_carries_the_instance_ids() -> None:
    uuid = A.removeprefix("GPU-")
    listed = f"GPU 0: A100-SXM4-40GB (UUID: {A})\n  MIG 3g.20gb Device 0: (UUID: MIG-GPU-{uuid}/1/0)\n"
    instance = parse("nvidia-smi", listed).gpus[0].mig_instances[0]
    assert (instance.gi, instance.ci, instance.uuid) == (1, 0, f"MIG-GPU-{uuid}/1/0")


def test_dmi_gives_the_system_and_only_the_filled_slots() -> None:
    found = read("dmidecode-server.txt")
    assert (found.system.serial_number, found.system.product_name) == ("EXS4711-09", "GX-8")
    assert (found.cpu.sockets, found.cpu.cores, found.cpu.threads) == (1, 48, 96)
    assert [(d.locator, d.size_mib) for d in found.memory.dimms] == [("DIMM A1", 65536)]


def test_lsblk_gives_each_whole_disk_once() -> None:
    disks = {disk.name: disk for disk in read("lsblk-multipath-raid.json").disks}
    assert set(disks) == {"sda", "sdb", "nvme0n1", "nvme1n1", "vdz"}
    assert disks["sdb"].wwn == "0x5000c500a1b2c3d4"
    assert (disks["sda"].removable, disks["sda"].transport) == (True, "usb")
    assert {name for name, disk in disks.items() if disk.system} == {"nvme0n1", "nvme1n1"}
    assert disks["nvme0n1"].rotational is False


def test_lshw_leaves_out_bonds_and_ports_whose_own_address_it_cannot_see() -> None:
    found = read("lshw-server.json")
    assert [(n.name, n.mac, n.bmc_link) for n in found.nics] == [
        ("eno1", "9c:6b:00:12:34:56", False),
        ("usb0", "9c:6b:00:12:34:99", True),
    ]
    assert (found.cpu.threads, found.memory.total_mib, found.system.hostname) == (96, 258048, "node7")
    assert found.system.product_uuid == "8a6b1c2d-3e4f-4a5b-9c6d-7e8f90a1b2c3"


def test_lxd_gives_ports_with_their_virtual_functions() -> None:
    found = read("lxd-sriov.json")
    nics = {nic.name: nic for nic in found.nics}
    assert [(vf.index, vf.pci_bus_id) for vf in nics["enp1"].vfs] == [
        (0, "0000:c1:00.1"),
        (1, "0000:c1:00.2"),
    ]
    assert nics["v0"].mac == "1c:1b:0d:00:00:07"
    assert len(nics["ib0"].mac.split(":")) == 20
    assert [disk.wwn for disk in found.disks] == ["0x5002538e00aabbcc"]


@pytest.mark.parametrize("number", [None, -1, "one", [], True])
def test_lxd_leaves_out_a_numa_node_without_a_number(number: Any) -> None:
    nodes = [{"numa_node": number, "total": 1 << 30}, {"total": 1 << 30}, {"numa_node": 1, "total": 1 << 30}]
    found = parse("lxd", json.dumps({"cpu": {}, "memory": {"nodes": nodes}}))
    assert [(node.id, node.memory_mib) for node in found.topology.numa_nodes] == [(1, 1024)]


def test_ip_link_prefers_the_permanent_address() -> None:
    found = read("ip-link.json")
    assert [(n.name, n.mac, len(n.vfs)) for n in found.nics] == [
        ("eno1", "9c:6b:00:12:34:56", 2),
        ("eno2", "9c:6b:00:12:34:57", 0),
    ]


def test_redfish_marks_the_port_to_the_bmc() -> None:
    found = read("redfish-system.json", "redfish-bmc-nic.json")
    assert (found.cpu.threads, found.memory.total_mib) == (192, 1536 * 1024)
    assert [(n.mac, n.bmc_link) for n in found.nics] == [("9c:6b:00:12:34:99", True)]


def test_an_absent_redfish_processor_tells_nothing() -> None:
    absent = {"@odata.type": "#Processor.v1_17_0.Processor", "Status": {"State": "Absent"}}
    assert parse("redfish", json.dumps(absent)).cpu == inventory.Cpu()


def test_o32_ironics_first_disk_may_be_a_stick_without_identity() -> None:
    assert [(d.name, d.wwn) for d in read("ironic-usb-first.json").disks] == [
        ("sda", None),
        ("sdb", "0x5f8db4c3916a0001"),
    ]


def test_a_gpu_listed_twice_is_refused() -> None:
    with pytest.raises(InventoryError, match=r"gpus\[1\]\.uuid"):
        parse("nvidia-smi", f"GPU 0: NVIDIA L4 (UUID: {A})\nGPU 1: NVIDIA L4 (UUID: {A})\n")


BOMB = '<!DOCTYPE l [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><nvidia_smi_log>&b;</nvidia_smi_log>'


@pytest.mark.parametrize(
    ("kind", "content", "says"),
    [
        ("nvidia-smi", BOMB, "declares the XML entity"),
        (
            "nvidia-smi",
            '<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><nvidia_smi_log/>',
            "XML entity",
        ),
        ("nvidia-smi", "<html></html>", "not of <nvidia_smi_log>"),
        ("nvidia-smi", "<nvidia_smi_log><gpu>", "not complete XML"),
        ("nvidia-smi", "<nvidia_smi_log><gpu></gpu></nvidia_smi_log>", "no <uuid>"),
        ("nvidia-smi", "", "none of nvidia-smi's outputs"),
        ("nvidia-smi", "GPU 0: NVIDIA L4 (UUID: GPU-1111", "names no GPU"),
        ("nvidia-smi", "GPU 0: NVIDIA L4 (UUID: GPU-1111)", "is no GPU UUID"),
        ("dmidecode", "", "holds no DMI structure"),
        ("dmidecode", "Handle 0x0000, DMI type 0, 24 bytes\n", "no System Information"),
        ("lsblk", "", "is not JSON"),
        ("lsblk", "[]", "no list `blockdevices`"),
        ("lsblk", '{"blockdevices": [{"type": "disk", "name": "sda", "size": "3.6T"}]}', "bytes are needed"),
        ("lshw", "[]", "class `system`"),
        ("lxd", "{}", "none of the sections"),
        ("ip-link", "{}", "no list of links"),
        ("redfish", "{}", "no @odata.type"),
        ("redfish", '{"@odata.type": "#Manager.v1_0_0.Manager"}', "is a Manager"),
        ("ironic", "{}", "neither"),
    ],
)
def test_a_wrong_file_is_one_line_saying_file_fault_and_remedy(kind: str, content: str, says: str) -> None:
    with pytest.raises(InventoryError, match=r"^given: .*; ") as refused:
        parse(kind, content)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file", FILES)
def test_a_file_cut_anywhere_is_an_inventory_or_a_clear_error(file: str) -> None:
    content = (FIXTURES / file).read_bytes()
    for end in range(0, len(content), 23):
        _read_or_refuse(FILES[file], content[:end])


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
JSON_FILES = sorted(file for file in FILES if file.endswith(".json"))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(JSON_FILES), values, st.integers(0, 200))
def test_json_with_any_value_in_any_place_is_an_inventory_or_a_clear_error(file: str, value: Any, place: int) -> None:
    document = json.loads((FIXTURES / file).read_bytes())
    places = list(_places(document))
    container, key = places[place % len(places)]
    container[key] = value
    _read_or_refuse(FILES[file], json.dumps(document).encode())


def _places(node: Any) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield node, key
        yield from _places(inner)


def _read_or_refuse(kind: str, content: bytes) -> None:
    with contextlib.suppress(InventoryError):
        parse(kind, content)
