"""What a node can sell (domain.md §4; cases O22, O32)."""

from typing import Any

import msgspec
import pytest

from domain import device
from domain.inventory import NodeInventory
from domain.mig import Slice

A = "GPU-11111111-aaaa-4bbb-8ccc-000000000001"
B = "GPU-22222222-aaaa-4bbb-8ccc-000000000002"
MIG = "MIG-aaaaaaaa-0001-5000-8000-00000000000"
CARD = {"name": "NVIDIA H100 80GB HBM3", "memoryMiB": 81559, "numaNode": 1, "pciBusId": "0000:1b:00.0"}
SEVEN = tuple(Slice("1g.10gb", start) for start in range(7))


def node(**sections: Any) -> NodeInventory:
    return NodeInventory.convert({"schema": "NodeInventory/v1", **sections})


def gpus(*cards: dict[str, Any]) -> NodeInventory:
    return node(gpus=[{**CARD, "uuid": uuid, **card} for uuid, card in zip((A, B), cards, strict=False)])


def derive(found: NodeInventory, **wanted: Any) -> device.Derived:
    return device.devices(found, **{"node_id": "node_1", "pool_class": "metal-host", **wanted})


def atoms(derived: device.Derived) -> list[str]:
    return [one.id for one in derived.devices if one.bookable]


def partitioned(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"migMode": "enabled", "migInstances": list(instances)}


def seven() -> dict[str, Any]:
    return partitioned(*({"gi": 7 + n, "ci": 0, "uuid": f"{MIG}{n}", "profile": "1g.10gb"} for n in range(7)))


def test_in_an_exclusive_pool_each_gpu_is_an_atom() -> None:
    derived = derive(gpus({}, {}))
    assert atoms(derived) == [A, B]
    first = derived.devices[0]
    assert (first.gpu_product, first.gpu_model, first.memory_gb, first.numa_node, first.cdi) == (
        "H100-SXM5-80GB",
        "H100",
        80,
        1,
        f"nvidia.com/gpu={A}",
    )


def test_o22_seven_slices_are_sold_and_their_parent_is_not() -> None:
    derived = derive(gpus(seven()), sharing="mig", mig_layout=SEVEN)
    assert atoms(derived) == [f"{A}/gi{n}/ci0" for n in range(7)]
    assert [one.id for one in derived.devices if one.class_ == "gpu" and not one.bookable] == [A]
    assert derived.partition_pending == ()


def test_o22_after_a_repartition_the_old_slices_are_gone() -> None:
    layout = (Slice("4g.40gb", 0), Slice("3g.40gb", 4))
    one = partitioned(
        {"gi": 1, "ci": 0, "uuid": MIG + "8", "profile": "3g.40gb", "start": 4},
        {"gi": 2, "ci": 0, "uuid": MIG + "9", "profile": "4g.40gb", "start": 0},
    )
    derived = derive(gpus(one), sharing="mig", mig_layout=layout)
    assert [d.id for d in derived.devices if d.class_ == "gpu.mig"] == [f"{A}/gi0/ci0", f"{A}/gi4/ci0"]
    assert derived.driver_slices[f"{A}/gi4/ci0"] == device.DriverSlice(1, 0, MIG + "8")


def test_a_slice_keeps_its_id_when_the_driver_numbers_it_anew() -> None:
    layout = (Slice("3g.40gb", 0), Slice("3g.40gb", 4))

    def after_boot(first_gi: int, second_gi: int) -> device.Derived:
        places = ((first_gi, 0), (second_gi, 4))
        made = [{"gi": gi, "ci": 0, "uuid": f"{MIG}{gi}", "profile": "3g.40gb", "start": s} for gi, s in places]
        return derive(gpus(partitioned(*made)), sharing="mig", mig_layout=layout)

    before, after = after_boot(1, 2), after_boot(2, 1)
    assert atoms(before) == atoms(after)
    assert after.driver_slices[f"{A}/gi0/ci0"].gi == 2
    assert next(d.cdi for d in after.devices if d.id == f"{A}/gi0/ci0") == f"nvidia.com/gpu={MIG}2"


@pytest.mark.parametrize(
    "card",
    [
        partitioned(),
        {"migMode": "disabled"},
        partitioned({"gi": 1, "ci": 0, "profile": "4g.40gb", "start": 0}),
        partitioned({"gi": 1, "ci": 0, "profile": "3g.40gb", "start": 0}),
        partitioned({"gi": 1, "ci": 0, "profile": "3g.40gb"}, {"gi": 1, "ci": 1, "profile": "3g.40gb"}),
    ],
)
def test_a_slice_that_does_not_stand_in_its_place_is_no_atom_and_the_partition_pends(
    card: dict[str, Any],
) -> None:
    derived = derive(gpus(card), sharing="mig", mig_layout=(Slice("3g.40gb", 4),))
    assert atoms(derived) == []
    assert derived.partition_pending == (A,)
    assert [d.id for d in derived.devices if d.class_ == "gpu.mig"] == [f"{A}/gi4/ci0"]


def test_an_instance_that_no_layout_asked_for_is_not_sold_and_the_partition_pends() -> None:
    derived = derive(gpus(seven()), sharing="mig", mig_layout=SEVEN[:6])
    assert len(atoms(derived)) == 6
    assert derived.partition_pending == (A,)


def test_an_instance_reported_without_a_name_stands_in_its_place() -> None:
    unnamed = partitioned({"gi": 2, "ci": 0, "memoryMiB": 40448, "multiprocessors": 60})
    assert atoms(derive(gpus(unnamed), sharing="mig", mig_layout=(Slice("3g.40gb", 4),))) == [f"{A}/gi4/ci0"]


@pytest.mark.parametrize("sharing", ["exclusive", "timeslice", "mps"])
def test_a_gpu_in_mig_mode_is_not_sold_whole(sharing: str) -> None:
    derived = derive(gpus(partitioned(), {}), sharing=sharing, replicas=2)
    assert not any(one.startswith(A) for one in atoms(derived))
    assert derived.partition_pending == (A,)


@pytest.mark.parametrize("sharing", ["timeslice", "mps"])
def test_a_shared_gpu_is_sold_by_slots_that_name_their_parent(sharing: str) -> None:
    derived = derive(gpus({}), sharing=sharing, replicas=4)
    assert atoms(derived) == [f"{A}/s{k}" for k in range(4)]
    assert {one.parent for one in derived.devices if one.class_ == "gpu.slot"} == {A}


def test_in_a_metal_dedicated_pool_the_node_is_the_only_atom() -> None:
    found = node(gpus=[{**CARD, "uuid": A}], disks=[{"serial": "S1", "sizeBytes": 1}])
    assert atoms(derive(found, pool_class="metal-dedicated")) == ["node_1"]


@pytest.mark.parametrize("pool_class", ["metal-host", "vps-host", "provider"])
def test_elsewhere_the_node_is_never_an_atom(pool_class: str) -> None:
    assert "node_1" not in atoms(derive(gpus({}), pool_class=pool_class))


def test_o32_a_disk_is_its_wwn_else_its_serial_and_without_either_no_atom() -> None:
    disks = [
        {"name": "sda", "sizeBytes": 5},
        {"name": "sdb", "sizeBytes": 5, "serial": "nt1", "wwn": "0x5F8DB4C3916A0001"},
        {"name": "sdc", "sizeBytes": 5, "serial": "nt2"},
        {"name": "sdd", "sizeBytes": 5, "serial": "0000"},
        {"name": "sde", "sizeBytes": 5, "serial": "same"},
        {"name": "sdf", "sizeBytes": 5, "serial": "SAME"},
    ]
    assert sorted(atoms(derive(node(disks=disks)))) == ["0x5f8db4c3916a0001", "NT2"]
    renamed = [{**one, "name": f"nvme{index}n1"} for index, one in enumerate(reversed(disks))]
    assert sorted(atoms(derive(node(disks=renamed)))) == ["0x5f8db4c3916a0001", "NT2"]


@pytest.mark.parametrize("unfit", [{"system": True}, {"removable": True}, {"transport": "usb"}, {"sizeBytes": 0}])
def test_o32_a_stick_and_the_disk_the_host_runs_from_are_no_atoms(unfit: dict[str, Any]) -> None:
    assert atoms(derive(node(disks=[{"serial": "S1", "sizeBytes": 5, **unfit}]))) == []


def test_a_virtual_function_is_named_after_its_ports_permanent_address() -> None:
    nic = {"mac": "9C:6B:00:12:34:56", "numaNode": 1, "vfs": [{"index": 1}, {"index": 0}]}
    assert atoms(derive(node(nics=[nic]))) == ["9c:6b:00:12:34:56/vf0", "9c:6b:00:12:34:56/vf1"]


def test_scalars_are_the_machines_own_before_overcommit() -> None:
    derived = derive(node(cpu={"threads": 192}, memory={"totalMiB": 2048}))
    assert derived.scalars == {"vcpu": 192, "memoryMiB": 2048}


def test_ids_of_a_node_are_unique_and_devices_survive_storing() -> None:
    derived = derive(gpus(seven(), {}), sharing="mig", mig_layout=SEVEN)
    ids = [one.id for one in derived.devices]
    assert len(ids) == len(set(ids))
    assert msgspec.json.decode(msgspec.json.encode(derived), type=device.Derived) == derived
    first = msgspec.to_builtins(derived.devices[0])
    assert first["class"] == "gpu"
    assert first["attributes"]["memory"] == {"type": "quantity", "value": "81559Mi"}


def test_gpus_on_one_nvlink_fabric_share_a_group() -> None:
    links = [{"gpuUuid": A, "links": 18, "group": 0}, {"gpuUuid": B, "links": 18, "group": 0}]
    found = node(gpus=[{**CARD, "uuid": u} for u in (A, B)], topology={"nvlinks": links})
    assert [one.nvlink_group for one in derive(found).devices if one.class_ == "gpu"] == [0, 0]
