"""What an inventory means: conditions, atoms, and whether a pool takes it."""

from typing import Any

import pytest

from commands import hardware
from domain import errors, node, node_fold, pool
from domain.inventory import NodeInventory
from given import SEVEN, inventory, partitioned

NOW = 1_000


def seen(found: dict[str, Any], shared: tuple[str, ...] = (), taken: tuple[str, ...] = ()) -> node.Inventoried:
    return hardware.snapshot(NodeInventory.convert(found), shared, taken, NOW)


def of(model: str = "H100", memory: int = 80, **fields: Any) -> pool.State:
    return pool.State(owner_tenant_id="platform", gpu_model=model, gpu_memory_gb=memory, **fields)


def holding(found: dict[str, Any], in_pool: pool.State | None) -> dict[str, str]:
    state = node_fold.evolve(node.State(), seen(found))
    raised = hardware.conditions(state, in_pool, NOW)
    return {e.condition.type: e.condition.message for e in raised if isinstance(e, node.ConditionRaised)}


def named(name: str) -> dict[str, Any]:
    found = inventory(gpus=1)
    found["gpus"][0]["name"] = name
    return found


@pytest.mark.parametrize(
    ("found", "in_pool", "expected"),
    [
        (inventory(), of(), {}),
        (named("Graphics Device"), None, {"GpuModelUnknown": "Graphics Device"}),
        (named(""), of(), {"GpuModelUnknown": "(no name)"}),
        (inventory("L4"), of(), {"GpuModelMismatch": "L4"}),
        (
            partitioned(1, 1),
            of("A100", sharing="mig", policy=pool.Policy(mig_layout=tuple(pool.Slice(**s) for s in SEVEN))),
            {},
        ),
    ],
)
def test_conditions_follow_from_the_inventory(found: Any, in_pool: Any, expected: dict[str, str]) -> None:
    assert holding(found, in_pool) == expected


def test_slices_that_are_gone_after_a_boot_leave_the_partition_pending() -> None:
    layout = pool.Policy(mig_layout=tuple(pool.Slice(**piece) for piece in SEVEN))
    found = partitioned(1, 1)
    found["gpus"][0]["migInstances"] = []
    assert holding(found, of("A100", sharing="mig", policy=layout)) == {"PartitionPending": found["gpus"][0]["uuid"]}


def test_a_booked_device_that_is_no_atom_any_more_is_named_until_it_is_back_or_nobody_has_it() -> None:
    state = node_fold.evolve(node.State(), node.Assigned("host", "pool_1", "platform"))
    first = hardware.observe(state, seen(inventory(gpus=2)), of(), (), NOW)
    for event in first:
        state = node_fold.evolve(state, event)
    booked = [card["uuid"] for card in inventory(gpus=2)["gpus"]]
    for event in hardware.observe(state, seen(inventory(gpus=1)), of(), booked, NOW):
        state = node_fold.evolve(state, event)
    gone = next(c for c in state.conditions if c.type == "BookedDeviceMissing")
    assert (gone.reason, gone.names) == ("DeviceMissing", (max(booked),))
    assert node.ConditionCleared("BookedDeviceMissing", NOW) in hardware.observe(
        state, seen(inventory(gpus=2)), of(), booked, NOW
    )
    assert hardware.observe(state, seen(inventory(gpus=1)), of(), (), NOW) == [
        node.ConditionCleared("BookedDeviceMissing", NOW)
    ]


def test_what_is_shared_leaves_the_fingerprint_and_stays_an_identifier() -> None:
    whole = seen(inventory())
    uuid = next(i for i in whole.identifiers if i.startswith("uuid:"))
    without = seen(inventory(), ("node_0",), (uuid,))
    assert without.fingerprint != whole.fingerprint
    assert without.identifiers == whole.identifiers


def test_an_unchanged_inventory_brings_nothing_and_a_changed_one_its_devices() -> None:
    state = node_fold.evolve(node.State(), seen(inventory()))
    state = node_fold.evolve(state, node.Assigned("host", "pool_1", "platform"))
    (devices,) = hardware.observe(state, seen(inventory()), of(), (), NOW)
    assert isinstance(devices, node.DevicesChanged)
    assert sum(device.bookable for device in devices.devices) == 8
    state = node_fold.evolve(state, devices)
    assert hardware.observe(state, seen(inventory()), of(), (), NOW) == []
    fewer = hardware.observe(state, seen(inventory(gpus=7)), of(), (), NOW)
    assert [type(event) for event in fewer] == [node.Inventoried, node.DevicesChanged, node.ConditionRaised]


def test_a_gpu_that_is_gone_is_named_until_it_is_back() -> None:
    """O25: it alone is unbookable, the others go on."""
    state = node_fold.evolve(node.State(), seen(inventory()))
    gone = sorted({g["uuid"] for g in inventory()["gpus"]} - {g["uuid"] for g in inventory(gpus=7)["gpus"]})
    for event in hardware.observe(state, seen(inventory(gpus=7)), None, (), NOW):
        state = node_fold.evolve(state, event)
    assert [(c.type, c.message) for c in state.conditions] == [("GpuCountMismatch", gone[0])]
    assert hardware.observe(state, seen(inventory(gpus=7)), None, (), NOW) == []
    back = hardware.observe(state, seen(inventory()), None, (), NOW)
    assert back[-1] == node.ConditionCleared("GpuCountMismatch", NOW)


def test_gpus_that_were_replaced_for_good_are_named_until_there_are_as_many_as_before() -> None:
    def having(*indices: int) -> node.Inventoried:
        return seen(inventory() | {"gpus": [inventory(gpus=1, index=index)["gpus"][0] for index in indices]})

    def missing() -> int:
        return sum(len(c.names) for c in state.conditions if c.type == "GpuCountMismatch")

    state, named = node.State(), []
    for step in (having(1, 2, 3), having(1), having(1, 4), having(1, 4, 5), having(4, 5), having(4, 5, 6)):
        for event in hardware.observe(state, step, None, (), NOW):
            state = node_fold.evolve(state, event)
        named.append(missing())
    assert named == [0, 2, 2, 0, 1, 0]
    for event in hardware.observe(state, having(6, 7, 8), None, (), NOW):
        state = node_fold.evolve(state, event)
    assert missing() == 0, "two were replaced between two reports"


def test_a_node_that_is_assigned_anew_is_expected_to_have_what_it_has_then() -> None:
    state = node_fold.evolve(node.State(), seen(inventory()))
    for event in hardware.observe(state, seen(inventory(gpus=7)), None, (), NOW):
        state = node_fold.evolve(state, event)
    for event in hardware.assign("node_1", state, "pool_1", of(), "host", NOW):
        state = node_fold.evolve(state, event)
    assert (state.conditions, state.expected_gpus) == ((), 7)


def test_overcommit_multiplies_scalars_and_never_devices() -> None:
    over = pool.Policy(overcommit=pool.Overcommit(vcpu=1.5, memory_mib=0.9))
    state = node_fold.evolve(node.State(), seen(inventory()))
    events = hardware.assign("node_1", state, "pool_1", of(policy=over), "host", NOW)
    devices = next(e for e in events if isinstance(e, node.DevicesChanged))
    assert devices.scalars == {"vcpu": 144, "memoryMiB": 943_718}
    assert sum(device.bookable for device in devices.devices) == 8


@pytest.mark.parametrize(
    ("found", "in_pool", "says"),
    [
        (inventory("L4"), of(), "family L4"),
        (inventory(), of(memory=94), "promises 94 GB"),
        (inventory(gpus=0), of(), "no GPU"),
        (named("NVIDIA"), of(), "family other"),
    ],
)
def test_a_pool_refuses_what_it_does_not_sell(found: Any, in_pool: pool.State, says: str) -> None:
    state = node_fold.evolve(node.State(), seen(found))
    with pytest.raises(errors.Conflict, match=says):
        hardware.fits(state, in_pool)


def test_a_node_without_an_inventory_belongs_to_no_pool() -> None:
    with pytest.raises(errors.Conflict, match="no inventory"):
        hardware.fits(node.State(), of())
