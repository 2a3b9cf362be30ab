"""What QEMU is told, the seed of an instance, its network and what it printed."""

import asyncio
import io
import json
from pathlib import Path

import pytest
import qemu_node
from msgspec.structs import replace
from pycdlib import PyCdlib

from adapters.agent.driver import Failed, Seed
from adapters.agent.program import Done
from adapters.agent.qemu import console, machine, network, seed, settings

HERE = Path("/var/lib/agent/instances/inst_1")


@pytest.fixture
def instance(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(b"image")
    return qemu_node.wanted(path, vcpu=4, memory_mib=8192).instance


def parts(**fields):
    return machine.Parts(**({"directory": HERE, "image": Path("/images/a,b"), "accelerator": "tcg"} | fields))


def after(words, option):
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def blocks(words):
    return {block["node-name"]: block for block in map(json.loads, after(words, "-blockdev"))}


def test_a_vm_has_its_size_an_overlay_on_the_image_and_its_seed(instance):
    words = machine.command(instance, parts())
    assert (after(words, "-smp"), after(words, "-m")) == (["4"], ["8192M"])
    assert after(words, "-machine") == ["q35,graphics=off"]
    found = blocks(words)
    assert found["disk"]["backing"] == {
        "driver": "raw",
        "read-only": True,
        "file": {"driver": "file", "filename": "/images/a,b"},
    }
    assert found["disk"]["file"]["filename"] == f"{HERE}/disk.qcow2"
    assert found["seed"]["read-only"]
    assert after(words, "-name") == ["guest=inst_1"]


def test_it_may_start_nothing_and_become_nobody_else(instance):
    assert after(machine.command(instance, parts()), "-sandbox") == [
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    ]
    words = machine.command(instance, parts(user="nobody"))
    assert after(words, "-runas") == ["nobody"]
    assert "elevateprivileges=allow" in after(words, "-sandbox")[0]


def test_with_kvm_it_has_the_hosts_cpu(instance):
    assert after(machine.command(instance, parts(accelerator="kvm")), "-cpu") == ["host"]
    assert after(machine.command(instance, parts()), "-cpu") == ["max"]


def test_an_iso_is_a_cd_that_is_booted_after_the_disk(instance):
    words = machine.command(replace(instance, image=replace(instance.image, format="iso")), parts())
    assert "backing" not in blocks(words)["disk"]
    assert "ide-cd,drive=cd,bootindex=2" in words


def test_a_microvm_has_virtio_without_pci(instance):
    words = machine.command(replace(instance, kind="microvm"), parts(firmware=Path("/bios.bin")))
    assert after(words, "-machine") == ["microvm,graphics=off,rtc=on"]
    assert after(words, "-bios") == ["/bios.bin"]
    assert not [word for word in words if "-pci" in word]


def test_gpus_are_behind_ports_of_their_own_with_memory_that_may_be_locked(instance):
    words = machine.command(instance, parts(gpus=("0000:17:00.0", "0000:65:00.0", "0000:ca:00.0")))
    assert words[:2] == ("prlimit", "--memlock=unlimited:unlimited")
    assert "vfio-pci,host=0000:65:00.0,bus=gpu1" in words
    assert "pcie-root-port,id=gpu2,chassis=3,slot=3" in words
    assert after(words, "-global") == ["q35-pcihost.pci-hole64-size=1024G"]


def test_a_mac_is_the_instances_own_and_always_the_same():
    assert machine.mac("inst_1") == machine.mac("inst_1") != machine.mac("inst_2")
    assert int(machine.mac("inst_1")[:2], 16) & 3 == 2, "locally administered, of one machine"


def test_the_firmware_is_seabios_and_not_the_one_that_boots_no_disk(tmp_path):
    assert machine.firmware(tmp_path) is None
    (tmp_path / "usr/share/qemu").mkdir(parents=True)
    other = tmp_path / "usr/share/qemu/bios-microvm.bin"
    other.write_bytes(b"")
    assert machine.firmware(tmp_path) == other
    (tmp_path / "usr/share/seabios").mkdir()
    own = tmp_path / "usr/share/seabios/bios-microvm.bin"
    own.write_bytes(b"")
    assert machine.firmware(tmp_path) == own


def test_a_seed_has_what_cloud_init_asks_for():
    told = Seed("web: 1", "inst_1", ("ssh-ed25519 AAAA a@b", "ssh-rsa BBBB"), b"#cloud-config\n\xff")
    disc = PyCdlib()
    disc.open_fp(io.BytesIO(seed.iso(told)))
    assert disc.pvd.volume_identifier.rstrip() == b"cidata"
    for view in ("rr_path", "joliet_path"):
        content = {}
        for name in ("meta-data", "user-data"):
            read = io.BytesIO()
            disc.get_file_from_iso_fp(read, **{view: f"/{name}"})
            content[name] = read.getvalue()
        assert content["user-data"] == told.user_data
        assert json.loads(content["meta-data"]) == {
            "instance-id": "inst_1",
            "local-hostname": "web: 1",
            "public-keys": ["ssh-ed25519 AAAA a@b", "ssh-rsa BBBB"],
        }
    disc.close()


def test_a_seed_without_user_data_is_a_seed():
    assert seed.files(Seed("web", "inst_1", (), b""))["user-data"] == b""
    assert seed.iso(Seed("web", "inst_1", (), b""))


def test_the_end_of_a_console_is_read_and_its_beginning_given_back(tmp_path):
    path = tmp_path / "console.log"
    assert console.read(path) is None
    path.write_bytes(b"")
    assert console.read(path) is None
    path.write_bytes(b"x" * 4_000_000 + b"\xff the end")
    asyncio.run(console.bound(path))
    told = console.read(path)
    assert told.total_bytes == 4_000_009
    assert told.tail.endswith("x\ufffd the end")
    assert path.stat().st_size == 4_000_009
    assert path.stat().st_blocks * 512 < 400_000
    with path.open("ab") as file:
        file.write(b" and more")
    assert console.read(path).total_bytes == 4_000_018


def test_where_nothing_can_be_given_back_the_file_begins_anew(tmp_path):
    async def refuses(command):
        return Done(1)

    path = tmp_path / "console.log"
    path.write_bytes(b"x" * 4_000_000)
    asyncio.run(console.bound(path, refuses))
    assert path.stat().st_size == 0


class Ip:
    """The program `ip`: what it was told, and interfaces in a directory."""

    def __init__(self, root):
        self.net = root / "sys/class/net"
        (self.net / "br0/bridge").mkdir(parents=True)
        self.told = []

    async def __call__(self, command):
        self.told.append(" ".join(command))
        words = list(command)
        if words[1:3] == ["tuntap", "add"]:
            (self.net / words[4]).mkdir()
        if words[1:3] == ["link", "del"]:
            (self.net / words[4]).rmdir()
        return Done(0)


def test_a_tap_is_made_once_put_on_the_bridge_and_taken_away(tmp_path):
    ip = Ip(tmp_path)
    tap = asyncio.run(network.plug("inst_1", "br0", tmp_path, ip))
    assert len(tap) == 15
    assert ip.told == [f"ip tuntap add dev {tap} mode tap", f"ip link set dev {tap} master br0 up"]
    assert asyncio.run(network.plug("inst_1", "br0", tmp_path, ip)) == tap
    asyncio.run(network.unplug("inst_1", tmp_path, ip))
    asyncio.run(network.unplug("inst_1", tmp_path, ip))
    assert ip.told[3:] == [f"ip link del dev {tap}"]
    with pytest.raises(Failed, match="NoBridge"):
        asyncio.run(network.plug("inst_1", "br1", tmp_path, ip))


def test_addresses_on_a_bridge_are_those_that_the_host_met(tmp_path):
    mac = machine.mac("inst_1")
    (tmp_path / "proc/net").mkdir(parents=True)
    lines = [
        "IP address       HW type     Flags       HW address            Mask     Device",
        f"192.0.2.7        0x1         0x2         {mac}     *        br0",
        f"192.0.2.8        0x1         0x2         {mac}     *        br1",
        f"192.0.2.9        0x1         0x0         {mac}     *        br0",
        "192.0.2.10       0x1         0x2         02:bc:00:00:00:00     *        br0",
    ]
    (tmp_path / "proc/net/arp").write_text("\n".join(lines))
    assert network.Neighbours("br0", tmp_path).addresses("inst_1") == ("192.0.2.7",)
    assert network.Neighbours(None, tmp_path).addresses("inst_1") == ("10.0.2.15",)


@pytest.mark.parametrize(("text", "bridge"), [("user", None), ("bridge=br0", "br0")])
def test_a_network_is_the_users_or_a_bridge(text, bridge):
    assert settings.network(text) == bridge


@pytest.mark.parametrize("text", ["", "br0", "bridge=", "bridge=a/b", "bridge=sixteen-letters.", "bridge=a,b"])
def test_no_other_network_is_known(text):
    with pytest.raises(ValueError, match="expected user, or bridge="):
        settings.network(text)


def test_kvm_is_taken_where_it_can_be_opened(tmp_path):
    kvm = tmp_path / "kvm"
    assert settings.accelerator(settings.Settings(), kvm) == "tcg"
    with pytest.raises(Failed, match="KvmUnusable"):
        settings.accelerator(settings.Settings(accelerator="kvm"), kvm)
    kvm.write_text("")
    assert settings.accelerator(settings.Settings(), kvm) == "kvm"
    assert settings.accelerator(settings.Settings(accelerator="tcg"), kvm) == "tcg"
