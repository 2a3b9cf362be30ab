"""Each check of acceptance on machines that are well, and on machines that are not."""

import asyncio

import pytest

from adapters.agent import acceptance, diagnostics, machines, program
from adapters.agent.commander import Failure
from domain.inventory import NodeInventory
from domain.node_spec import Allocation

CARD = "sys/bus/pci/devices/0000:1b:00.0"
UP = {
    "sys/class/net/eth0/carrier": "1",
    "sys/class/net/lo/carrier": "1",
    "proc/1/net/route": "Iface\tDestination\tGateway\neth0\t00000000\t0100000A\n",
}


def put(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def printing(**outputs):
    """nvidia-smi by its first argument; without any it is not installed."""

    async def run(command):
        if not outputs:
            return program.Done(127, complained=b"not found")
        printed = outputs.get(command[1].strip("-"))
        return program.Done(1, complained=b"has failed") if printed is None else program.Done(0, printed.encode())

    return run


def verdict(check, root, run=None, **sections):
    """ok and detail of one check."""
    found = NodeInventory.convert(machines.inventory_for("H100", 1) | sections)
    machine = acceptance.Machine(found, root, run or printing(), lambda: True)
    try:
        answer = asyncio.run(acceptance.accept((check,), machine))
    except Failure as failure:
        answer = failure.result if failure.reason == f"ChecksFailed: {check}" else {}
    (row,) = answer["checks"]
    assert row["name"] == check
    return row["ok"], row["detail"]


def log(faults=""):
    return f"<nvidia_smi_log><gpu><uuid>GPU-1</uuid>{faults}</gpu></nvidia_smi_log>"


def test_a_gpu_on_the_bus_that_the_driver_has_not_is_missing(tmp_path):
    put(tmp_path, {f"{CARD}/vendor": "0x10de", f"{CARD}/class": "0x030200"})
    assert verdict("gpus-present", tmp_path) == (True, "1 GPUs")
    put(tmp_path, {f"{CARD.replace('1b', '43')}/vendor": "0x10de", f"{CARD.replace('1b', '43')}/class": "0x030200"})
    put(tmp_path, {f"{CARD.replace('1b', '99')}/vendor": "0x10de", f"{CARD.replace('1b', '99')}/class": "0x040300"})
    assert verdict("gpus-present", tmp_path) == (False, "on the bus and not with the driver: 0000:43:00.0")


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (
            "<ecc_errors><volatile><sram_uncorrectable_secded>2</sram_uncorrectable_secded></volatile></ecc_errors>",
            "2 sram",
        ),
        ("<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>", "rows to remap"),
        ("<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>", "not remap"),
        ("<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>", "pages to retire"),
        ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "needs a reset"),
    ],
)
def test_a_fault_of_a_gpu_is_named(tmp_path, faults, said):
    ok, detail = verdict("gpu-health", tmp_path, printing(q=log(faults)))
    assert not ok
    assert said in detail


def test_a_gpu_without_ecc_is_well(tmp_path):
    healthy = log("<ecc_errors><volatile><dram_uncorrectable>N/A</dram_uncorrectable></volatile></ecc_errors>")
    assert verdict("gpu-health", tmp_path, printing(q=healthy))[0]


def test_gpus_without_a_working_driver_are_not_well(tmp_path):
    put(tmp_path, {f"{CARD}/vendor": "0x10de", f"{CARD}/class": "0x030200"})
    assert not verdict("gpu-health", tmp_path)[0]
    assert not verdict("gpu-health", tmp_path, printing(L=""))[0]
    assert not verdict("nvlink-up", tmp_path)[0]


def links(name, *states):
    return "".join(
        f"GPU {n}: {name} (UUID: GPU-{n})\n" + "".join(f"\t Link {k}: {one}\n" for k, one in enumerate(row))
        for n, row in enumerate(states)
    )


UP_LINK, DOWN = "26.562 GB/s", "<inactive>"


@pytest.mark.parametrize(
    ("name", "states", "ok"),
    [
        ("NVIDIA H100 80GB HBM3", [[UP_LINK] * 2, [UP_LINK] * 2], True),
        ("NVIDIA H100 80GB HBM3", [[UP_LINK] * 2, [UP_LINK, DOWN]], False),
        ("NVIDIA H100 80GB HBM3", [[DOWN] * 2, [DOWN] * 2], False),
        ("NVIDIA H100 PCIe", [[DOWN] * 2, [DOWN] * 2], True),
        ("NVIDIA H100 PCIe", [[UP_LINK] * 2, [UP_LINK, DOWN]], False),
        ("NVIDIA L4", [[], []], True),
    ],
)
def test_links_are_up_where_the_board_has_them(tmp_path, name, states, ok):
    assert verdict("nvlink-up", tmp_path, printing(nvlink=links(name, *states)))[0] is ok


def test_memory_that_erred_or_is_not_seen_is_not_well(tmp_path):
    put(tmp_path, {"sys/devices/system/edac/mc/mc0/ue_count": "0"})
    assert verdict("memory", tmp_path)[0]
    half = {"totalMiB": 500_000, "dimms": [{"sizeMiB": 65_536, "locator": f"D{n}"} for n in range(16)]}
    assert verdict("memory", tmp_path, memory=half) == (False, "500000 MiB of 1048576 MiB in modules")
    put(tmp_path, {"sys/devices/system/edac/mc/mc0/ue_count": "1"})
    assert verdict("memory", tmp_path) == (False, "uncorrectable errors at mc0")


def test_a_disk_that_is_off_and_an_array_that_lacks_one_are_not_well(tmp_path):
    put(tmp_path, {"sys/block/nvme0n1/device/state": "live", "sys/block/md0/md/degraded": "0"})
    assert verdict("disks", tmp_path)[0]
    put(tmp_path, {"sys/block/nvme1n1/device/state": "dead", "sys/block/md0/md/degraded": "1"})
    assert verdict("disks", tmp_path) == (False, "nvme1n1 is dead; md0 is degraded")


def test_a_network_is_a_carrier_and_a_way_out(tmp_path):
    assert verdict("network", tmp_path) == (False, "no port has a carrier")
    put(tmp_path, UP)
    assert verdict("network", tmp_path) == (True, "up: eth0")
    put(tmp_path, {"proc/1/net/route": "Iface\tDestination\n"})
    assert verdict("network", tmp_path)[0] is False
    put(tmp_path, {"proc/1/net/ipv6_route": f"{'0' * 32} 00 {'0' * 32} 00 fe80 0 0 0 0 eth0\n"})
    assert verdict("network", tmp_path)[0]


def test_a_clock_is_synchronized_or_not(tmp_path):
    unknown = machines.inventory_for("L4") | {"clock": {}}
    for synchronized in (True, False):
        machine = acceptance.Machine(NodeInventory.convert(unknown), tmp_path, printing(), lambda s=synchronized: s)
        assert asyncio.run(acceptance._clock_synchronized(machine))[0] is synchronized


def test_without_a_name_all_checks_are_made(tmp_path):
    put(tmp_path, UP)
    machine = acceptance.Machine(NodeInventory.convert(machines.inventory_for("L4")), tmp_path, printing())
    assert len(asyncio.run(acceptance.accept((), machine))["checks"]) == 7


def test_this_machine_says_of_its_clock_whether_it_is_synchronized():
    assert acceptance.kernel_clock() in (True, False)


def test_diagnostics_stay_small_and_name_what_was_left_out(tmp_path):
    mounts = "".join(f"/dev/sd{n} /{'x' * 200} ext4 rw 0 0\n" for n in range(500))
    put(tmp_path, {"proc/mounts": mounts, f"{'x' * 200}/y": "", "proc/uptime": "5.3 1"})
    held = [Allocation(f"alc_{n}", "rsv", tuple("d" * 60 for _ in range(64))) for n in range(32)]
    facts = asyncio.run(diagnostics.collect(tmp_path, held, printing()))
    assert facts["leftOut"] == ["held"]
    assert (facts["uptimeSeconds"], facts["gpuDriver"]) == (5, "none")
    assert len(str(facts)) < diagnostics.MAX_BYTES
