"""What a real node holds: files that come, go and are believed, and GPUs that are cut up without harming anybody."""

import asyncio
import json
import os
import stat

import pytest
from fake_plane import allocation

from adapters.agent import holds, nvidia, partition, program, protocol
from adapters.agent.reconcile import reconcile
from domain.node_spec import Sharing, Slice
from fake_driver import Driver, gpu

TWO = (Slice("1g.10gb", 0), Slice("3g.40gb", 4))
MIG = Sharing("mig", layout=TWO)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    made = Driver(tmp_path, gpu(0), gpu(1))
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


class Node:
    """Holds on the driver's host, and how often the inventory was said to be another."""

    def __init__(self, driver, tmp_path, boot="boot-1"):
        self.changes = 0
        self.cdi = tmp_path / "cdi"
        self.holds = holds.Holds(self.cdi, boot, self.changed, driver.root)

    async def changed(self):
        self.changes += 1

    def do(self, act):
        return asyncio.run(act)

    def reconcile(self, *allocations, sharing=None):
        spec = protocol.Spec(1, allocations, sharing or Sharing())
        return asyncio.run(reconcile(spec, self.holds))

    def edits(self, allocation_id):
        file = json.loads((self.cdi / f"better-compute-{allocation_id}.json").read_text())
        return file["devices"][0]["containerEdits"]

    def files(self):
        return sorted(path.name for path in self.cdi.iterdir()) if self.cdi.exists() else []


@pytest.fixture
def node(driver, tmp_path):
    return Node(driver, tmp_path)


def on(driver, *cards, id="alc_1"):
    return allocation(id, *(f"nvidia.com/gpu={driver.gpus[n]['uuid']}" for n in cards))


def slices(driver, n):
    return [(one["profile"], one["start"]) for one in driver.gpus[n]["instances"]]


def test_an_allocation_is_a_file_with_the_nodes_of_its_gpus(driver, node):
    assert node.reconcile(on(driver, 1)).items == {"alc_1": "prepared"}
    assert node.edits("alc_1")["deviceNodes"] == [
        {"path": "/dev/nvidia6"},
        {"path": "/dev/nvidiactl"},
        {"path": "/dev/nvidia-uvm"},
    ]
    assert node.files() == ["better-compute-alc_1.json"]
    assert stat.S_IMODE((node.cdi / "better-compute-alc_1.json").stat().st_mode) == 0o644


def test_a_released_allocation_leaves_nothing(driver, node):
    node.reconcile(on(driver, 0), on(driver, 1, id="alc_2"))
    assert node.reconcile(on(driver, 1, id="alc_2")).items == {"alc_2": "prepared"}
    assert node.files() == ["better-compute-alc_2.json"]


def test_what_was_held_is_held_after_a_restart(driver, node, tmp_path):
    node.reconcile(on(driver, 0))
    assert Node(driver, tmp_path).holds.held() == [on(driver, 0)]


def test_foreign_files_are_neither_read_nor_touched(driver, node):
    node.cdi.mkdir()
    foreign = ["nvidia.yaml", "better-compute-.json", "better-compute-a..json", "better-compute.json"]
    for name in foreign:
        (node.cdi / name).write_text("theirs")
    node.reconcile(on(driver, 0))
    node.reconcile()
    assert node.files() == sorted(foreign)


def test_a_damaged_file_is_written_anew(driver, node):
    node.reconcile(on(driver, 0))
    file = node.cdi / "better-compute-alc_1.json"
    whole = file.read_text()
    file.write_text(whole[:100])
    assert node.reconcile(on(driver, 0)).items == {"alc_1": "prepared"}
    assert file.read_text() == whole


def damage(node, allocation_id="alc_1"):
    file = node.cdi / f"better-compute-{allocation_id}.json"
    file.write_text(file.read_text()[:100])


def test_a_damaged_file_is_no_proof_that_nobody_computes(driver, node, tmp_path):
    node.reconcile(on(driver, 0))
    damage(node)
    driver.change(0, processes=[{}])
    assert node.reconcile().items == {"alc_1": "failed"}
    restarted = Node(driver, tmp_path)
    assert restarted.reconcile(on(driver, 1, id="alc_2")).items == {"alc_1": "failed", "alc_2": "preparing"}
    driver.change(0, processes=[])
    assert restarted.reconcile(on(driver, 1, id="alc_2")).items == {"alc_2": "prepared"}
    assert node.files() == ["better-compute-alc_2.json"]


def test_who_computes_for_another_allocation_does_not_keep_a_damaged_one(driver, node):
    node.reconcile(on(driver, 0), on(driver, 1, id="alc_2"))
    damage(node)
    driver.change(1, processes=[{}])
    assert node.reconcile(on(driver, 1, id="alc_2")).items == {"alc_2": "prepared"}


def test_a_damaged_file_is_kept_while_the_driver_does_not_answer(driver, node):
    node.reconcile(on(driver, 0))
    damage(node)
    (driver.bin / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert node.reconcile().items == {"alc_1": "failed"}


def test_a_damaged_file_of_whoever_computes_is_written_anew_from_the_spec(driver, node):
    node.reconcile(on(driver, 0))
    damage(node)
    driver.change(0, processes=[{}])
    assert node.reconcile(on(driver, 0)).items == {"alc_1": "prepared"}
    assert node.holds.held() == [on(driver, 0)]


def test_no_gpu_is_cut_up_or_reset_while_a_damaged_file_may_hold_it(driver, node):
    node.reconcile(sharing=MIG)
    held = allocation("alc_1", f"nvidia.com/gpu={driver.gpus[0]['instances'][0]['uuid']}")
    node.reconcile(held, sharing=MIG)
    damage(node)
    with pytest.raises(partition.NotPartitioned, match="is held"):
        node.do(node.holds.whole())
    assert [card["mode"] for card in driver.gpus] == ["Enabled", "Enabled"]
    assert node.holds.uses(driver.gpus[0]["uuid"])


def test_a_device_that_the_driver_has_not_cannot_be_prepared(node):
    missing = allocation("alc_1", "nvidia.com/gpu=GPU-00000000-0000-4000-8000-00000000dead")
    assert node.reconcile(missing, allocation("alc_2", "acme.com/fpga=1")).items == {
        "alc_1": "failed",
        "alc_2": "failed",
    }
    assert node.files() == []


def test_names_from_the_wire_are_no_paths(driver, node, tmp_path):
    assert node.reconcile(on(driver, 0, id="../evil")).items == {"../evil": "failed"}
    with pytest.raises(holds.Refused):
        node.do(node.holds.tear_down("../evil"))
    assert not (tmp_path / "evil.json").exists()


def test_after_a_boot_files_are_renewed_though_somebody_computes(driver, node, tmp_path):
    """Device numbers are dealt anew, and a container that the boot started is not to lose its GPU."""
    node.reconcile(on(driver, 0))
    driver.change(0, minor=3, processes=[{}])
    assert Node(driver, tmp_path, "boot-2").reconcile(on(driver, 0)).items == {"alc_1": "prepared"}
    assert node.edits("alc_1")["deviceNodes"][0] == {"path": "/dev/nvidia3"}


def test_after_a_boot_a_gpu_that_is_gone_is_not_said_to_be_prepared(driver, node, tmp_path):
    held = on(driver, 1)
    node.reconcile(held)
    driver.write(driver.gpus[0])
    again = Node(driver, tmp_path, "boot-2")
    assert again.reconcile(held).items == {"alc_1": "failed"}
    assert again.reconcile(held).items == {"alc_1": "failed"}


def test_a_gpu_is_not_given_back_while_somebody_computes_on_it(driver, node, tmp_path):
    node.reconcile(on(driver, 0))
    driver.change(0, processes=[{}])
    assert node.reconcile().items == {"alc_1": "failed"}
    assert node.files() == ["better-compute-alc_1.leaving"]
    assert [held.id for held in Node(driver, tmp_path).holds.held()] == ["alc_1"]
    driver.change(0, processes=[])
    assert node.reconcile().items == {}
    assert node.files() == []


def test_what_others_share_is_given_back_at_once(driver, node):
    node.reconcile(on(driver, 0), on(driver, 0, id="alc_2"))
    driver.change(0, processes=[{}])
    assert node.reconcile(on(driver, 0)).items == {"alc_1": "prepared"}


def test_the_sharing_daemon_is_nobody(driver, node):
    node.reconcile(on(driver, 0))
    driver.change(0, processes=[{"name": "/usr/bin/nvidia-cuda-mps-server"}])
    assert node.reconcile().items == {}


def test_gpus_are_cut_up_as_the_layout_says_and_only_once(driver, node):
    assert node.reconcile(sharing=MIG).shaped
    assert slices(driver, 0) == slices(driver, 1) == [("1g.11gb", 0), ("3g.40gb", 4)]
    assert node.changes == 1
    before = driver.calls()
    assert node.reconcile(sharing=MIG).shaped
    assert (driver.calls(), node.changes) == (before, 1)


def test_another_layout_replaces_the_slices_of_free_gpus(driver, node):
    node.reconcile(sharing=MIG)
    assert node.reconcile(sharing=Sharing("mig", layout=(Slice("7g.80gb", 0),))).shaped
    assert slices(driver, 1) == [("7g.80gb", 0)]


def test_a_slice_is_given_with_its_capabilities(driver, node):
    node.reconcile(sharing=MIG)
    one = driver.gpus[0]["instances"][1]
    held = allocation("alc_1", f"nvidia.com/gpu={one['uuid']}")
    assert node.reconcile(held, sharing=MIG).items == {"alc_1": "prepared"}
    edits = node.edits("alc_1")
    assert edits["env"] == [f"NVIDIA_VISIBLE_DEVICES={one['uuid']}"]
    assert [entry["path"] for entry in edits["deviceNodes"]][:3] == [
        "/dev/nvidia7",
        "/dev/nvidia-caps/nvidia-cap780",
        "/dev/nvidia-caps/nvidia-cap781",
    ]


def test_nothing_that_is_held_is_destroyed(driver, node):
    node.reconcile(sharing=MIG)
    held = allocation("alc_1", f"nvidia.com/gpu={driver.gpus[0]['instances'][0]['uuid']}")
    node.reconcile(held, sharing=MIG)
    reached = node.reconcile(held, sharing=Sharing("mig", layout=(Slice("7g.80gb", 0),)))
    assert (reached.items, reached.shaped) == ({"alc_1": "prepared"}, False)
    assert slices(driver, 0) == [("1g.11gb", 0), ("3g.40gb", 4)]
    assert slices(driver, 1) == [("7g.80gb", 0)]


def test_after_a_boot_the_same_slices_are_made_at_the_same_starts(driver, node, tmp_path):
    """The driver forgets them, and who holds one finds it again (O23)."""
    node.reconcile(sharing=MIG)
    held = allocation("alc_1", f"nvidia.com/gpu={driver.gpus[0]['instances'][1]['uuid']}")
    node.reconcile(held, sharing=MIG)
    for n in range(2):
        driver.change(n, mode="Disabled", pending="Disabled", instances=[])
    reached = Node(driver, tmp_path, "boot-2").reconcile(held, sharing=MIG)
    assert (reached.items, reached.shaped) == ({"alc_1": "prepared"}, True)
    assert slices(driver, 0) == [("1g.11gb", 0), ("3g.40gb", 4)]


def test_one_slice_that_vanished_is_made_beside_those_that_are_held(driver, node):
    node.reconcile(sharing=MIG)
    first, second = driver.gpus[0]["instances"]
    held = allocation("alc_1", f"nvidia.com/gpu={first['uuid']}")
    node.reconcile(held, sharing=MIG)
    driver.change(0, instances=[first])
    assert node.reconcile(held, sharing=MIG).shaped
    assert [one["uuid"] for one in driver.gpus[0]["instances"]] == [first["uuid"], second["uuid"]]


def test_a_held_slice_that_was_made_anew_has_its_new_device_nodes(driver, node):
    node.reconcile(sharing=MIG)
    first, second = driver.gpus[0]["instances"]
    held = allocation("alc_1", f"nvidia.com/gpu={second['uuid']}")
    node.reconcile(held, sharing=MIG)
    before = node.edits("alc_1")
    driver.change(0, instances=[first | {"gi": 9}])
    assert node.reconcile(held, sharing=MIG).items == {"alc_1": "prepared"}
    assert driver.gpus[0]["instances"][1]["uuid"] == second["uuid"]
    assert node.edits("alc_1") != before
    assert "/dev/nvidia-caps/nvidia-cap800" in [entry["path"] for entry in node.edits("alc_1")["deviceNodes"]]


def test_a_gpu_that_takes_the_mode_at_a_reset_is_reset(driver, node):
    driver.change(0, needsReset=True)
    assert node.reconcile(sharing=MIG).shaped
    assert f"--gpu-reset -i {driver.gpus[0]['uuid']}" in driver.calls()


def test_a_layout_that_the_gpu_cannot_hold_touches_nothing(driver, node):
    assert not node.reconcile(sharing=Sharing("mig", layout=(Slice("3g.40gb", 3),))).shaped
    assert driver.calls() == []


def test_partitions_are_undone_on_command_unless_they_are_held(driver, node):
    node.reconcile(sharing=MIG)
    held = allocation("alc_1", f"nvidia.com/gpu={driver.gpus[0]['instances'][0]['uuid']}")
    node.reconcile(held, sharing=MIG)
    with pytest.raises(partition.NotPartitioned, match="is held"):
        node.do(node.holds.whole())
    assert [card["mode"] for card in driver.gpus] == ["Enabled", "Disabled"]
    assert node.changes == 2, "the GPU that is whole again is told, though another could not be"


def test_a_driver_that_does_not_answer_prepares_nothing(driver, node):
    held = on(driver, 0)
    (driver.bin / "nvidia-smi").write_text("#!/bin/sh\necho 'cannot reach the driver' >&2\nexit 9\n")
    assert node.reconcile(held).items == {"alc_1": "failed"}
    with pytest.raises(nvidia.DriverError, match="cannot reach the driver"):
        node.do(nvidia.look(program.run))
