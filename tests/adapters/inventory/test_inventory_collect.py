"""The machine itself, as a fake tree of /sys and /proc and fake programs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters.inventory import collect, ethtool

FIXTURES = Path(__file__).parents[2] / "fixtures" / "inventory"
PRINTED = {
    ("nvidia-smi", "-L"): "smi-list-h100-mig.txt",
    ("nvidia-smi", "-q", "-x"): "smi-h100-mig.xml",
    ("nvidia-smi", "mig", "-lgi"): "smi-mig-lgi.txt",
    ("nvidia-smi", "topo", "-m"): "smi-topo.txt",
    ("nvidia-smi", "nvlink", "--status"): "smi-nvlink.txt",
    ("dmidecode",): "dmidecode-server.txt",
    ("lsblk",): "lsblk-multipath-raid.json",
}


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two ports, one with two virtual functions, a bond, one NUMA node."""
    port, second = "sys/devices/pci0000:00/0000:01:00.0", "sys/devices/pci0000:00/0000:01:00.1"
    put(
        tmp_path,
        {
            "sys/class/dmi/id/product_uuid": "8A6B1C2D-3E4F-4A5B-9C6D-7E8F90A1B2C3\n",
            "sys/class/dmi/id/sys_vendor": "Example Systems\n",
            "proc/sys/kernel/hostname": "node7\n",
            "proc/cpuinfo": "processor\t: 0\nphysical id\t: 0\ncore id\t: 0\nmodel name\t: X1\n\n"
            "processor\t: 1\nphysical id\t: 0\ncore id\t: 0\n",
            "proc/meminfo": "MemTotal:       24684096 kB\n",
            "sys/devices/system/node/node0/cpulist": "0-1\n",
            "sys/bus/pci/devices/0000:1b:00.0/numa_node": "1\n",
            "sys/bus/pci/devices/0000:43:00.0/numa_node": "-1\n",
            f"{port}/numa_node": "0\n",
            f"{port}/sriov_totalvfs": "8\n",
            f"{port}/net/eno1/address": "9c:6b:00:12:34:56\n",
            f"{second}/net/eno2/address": "9c:6b:00:12:34:56\n",
            f"{second}/net/eno2/addr_assign_type": "3\n",
            f"{second}/net/eno2/master/x": "",
            "sys/devices/pci0000:00/0000:01:10.0/net/eno1v0/address": "9c:6b:00:12:34:70\n",
            "sys/devices/virtual/net/bond0/address": "9c:6b:00:12:34:56\n",
        },
    )
    devices = tmp_path / "sys/devices/pci0000:00"
    network = tmp_path / "sys/class/net"
    network.mkdir(parents=True)
    for pci, name in (("0000:01:00.0", "eno1"), ("0000:01:00.1", "eno2"), ("0000:01:10.0", "eno1v0")):
        (devices / pci / "net" / name / "device").symlink_to(devices / pci)
        (network / name).symlink_to(devices / pci / "net" / name)
    (network / "bond0").symlink_to(tmp_path / "sys/devices/virtual/net/bond0")
    (devices / "0000:01:00.0/virtfn0").symlink_to(devices / "0000:01:10.0")
    (devices / "0000:01:10.0/physfn").symlink_to(devices / "0000:01:00.0")
    return tmp_path


def fake_run(command: Sequence[str]) -> bytes | None:
    file = PRINTED.get(tuple(command)) or PRINTED.get((command[0],))
    return (FIXTURES / file).read_bytes() if file else None


def no_program(command: Sequence[str]) -> None:
    return None


def permanent(name: str) -> str | None:
    return {"eno2": "9c6b00123457"}.get(name)


def test_ports_have_their_permanent_address_and_their_functions(machine: Path) -> None:
    found = collect.collect(machine, no_program, permanent)
    assert [(n.name, n.mac, n.pci_bus_id, len(n.vfs)) for n in found.nics] == [
        ("eno1", "9c:6b:00:12:34:56", "0000:01:00.0", 1),
        ("eno2", "9c:6b:00:12:34:57", "0000:01:00.1", 0),
    ]
    assert (found.nics[0].numa_node, found.nics[0].max_vfs) == (0, 8)
    assert found.nics[0].vfs[0].pci_bus_id == "0000:01:10.0"


def test_a_bonds_member_without_a_permanent_address_is_left_out(machine: Path) -> None:
    found = collect.collect(machine, no_program, lambda name: None)
    assert [n.name for n in found.nics] == ["eno1"]


def test_a_machine_without_any_program_still_has_an_inventory(machine: Path) -> None:
    found = collect.collect(machine, no_program, permanent)
    assert (found.gpus, found.disks) == ((), ())
    assert found.system.product_uuid == "8a6b1c2d-3e4f-4a5b-9c6d-7e8f90a1b2c3"
    assert (found.cpu.sockets, found.cpu.cores, found.cpu.threads) == (1, 1, 2)
    assert found.memory.total_mib == 24105


def test_programs_complete_what_the_kernel_shows(machine: Path) -> None:
    found = collect.collect(machine, fake_run, permanent)
    assert [(g.numa_node, g.mig_mode) for g in found.gpus] == [(1, "enabled"), (None, "disabled")]
    assert [(m.gi, m.start, m.profile) for m in found.gpus[0].mig_instances] == [
        (2, 4, "3g.40gb"),
        (9, 0, "1g.10gb"),
    ]
    assert len(found.disks) == 5
    assert (found.system.serial_number, found.system.hostname) == ("EXS4711-09", "node7")


def test_looking_twice_finds_the_same(machine: Path) -> None:
    assert collect.collect(machine, fake_run, permanent) == collect.collect(machine, fake_run, permanent)


def test_a_program_that_prints_something_else_is_as_good_as_missing(machine: Path) -> None:
    found = collect.collect(machine, lambda command: b"NVIDIA-SMI has failed", permanent)
    assert found.gpus == ()


def test_a_program_that_fails_hangs_or_is_missing_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "TIMEOUT_SECONDS", 0.05)
    assert collect.run(["sleep", "5"]) is None
    assert collect.run(["false"]) is None
    assert collect.run(["no-such-program-here"]) is None


def test_this_machine_can_be_read() -> None:
    found = collect.collect()
    assert found.cpu.threads is not None
    assert found.memory.total_mib is not None


def test_a_port_that_does_not_exist_has_no_permanent_address() -> None:
    assert ethtool.permanent_mac("nosuchport0") is None


def test_programs_are_told_to_speak_english() -> None:
    printed = collect.run(["env"])
    assert printed is not None
    assert b"LC_ALL=C" in printed
