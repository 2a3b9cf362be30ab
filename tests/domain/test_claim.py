"""Rules of what can be asked for (domain.md §5, §10)."""

import msgspec
import pytest

from domain import claim, errors


def decode(**fields: object) -> claim.Claim:
    return msgspec.convert({"devices": [{"class": "gpu", "count": 1}], **fields}, claim.Claim)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"devices": []}, "$.devices"),
        ({"devices": [{"class": "gpu", "count": 1}] * 17}, "$.devices"),
        ({"devices": [{"class": "gpu", "count": -1}]}, "$.devices[0].count"),
        ({"devices": [{"class": "gpu", "count": 4097}]}, "$.devices[0].count"),
        ({"devices": [{"class": "gpu", "count": 2**31 + 1}]}, "$.devices[0].count"),
        ({"devices": [{"class": "tpu", "count": 1}]}, "$.devices[0].class"),
        ({"devices": [{"class": "gpu", "count": 1, "selector": "x" * 2049}]}, "$.devices[0].selector"),
        ({"devices": [{"class": "gpu", "count": 1, "topology": {"colocate": "rack"}}]}, "topology.colocate"),
        ({"devices": [{"class": "gpu", "count": 1, "color": "red"}]}, "color"),
        ({"nodes": 0}, "$.nodes"),
        ({"nodes": 1025}, "$.nodes"),
        ({"scalars": {"vcpu": -1}}, "$.scalars"),
        ({"scalars": {"disk": 1}}, "$.scalars"),
        ({"topology": {}}, "$.topology"),
        ({"topology": {"pack": "rack", "spread": "rack"}}, "$.topology"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        decode(**fields)
    assert path in str(refused.value)


def test_names_in_json_are_camel_case_and_class_is_a_word() -> None:
    wanted = decode(devices=[{"class": "gpu", "count": 2, "topology": {"colocate": "numa"}}], nodes=3)
    assert wanted.devices[0].class_ == "gpu"
    assert msgspec.to_builtins(wanted)["devices"][0]["class"] == "gpu"


@pytest.mark.parametrize(
    ("devices", "field"),
    [
        ([("gpu", 0, None, None)], "devices[0].count"),
        ([("gpu", 0, None, None), ("disk", 0, None, None)], "devices[0].count"),
        ([("gpu", 1, None, None), ("gpu", 1, "  ", None)], "devices[1].selector"),
        ([("disk", 1, None, "nvlink")], "devices[0].topology.colocate"),
        ([("node", 2, None, None)], "devices[0].count"),
        ([("node", 1, None, None), ("node", 1, None, None)], "devices[1].count"),
    ],
)
def test_senseless_claims_are_refused_by_field(devices: list[tuple[str, int, str, str]], field: str) -> None:
    lines = tuple(
        claim.DeviceLine(class_, count, text, claim.Colocation(group) if group else None)  # type: ignore[arg-type]
        for class_, count, text, group in devices
    )
    with pytest.raises(errors.Invalid) as refused:
        claim.check(claim.Claim(lines))
    assert refused.value.errors[0].field == field


def test_scalars_alone_can_be_asked_for() -> None:
    claim.check(claim.Claim((claim.DeviceLine("gpu", 0),), scalars={"vcpu": 4}))


def test_quota_counts_every_node_of_the_gang() -> None:
    lines = (claim.DeviceLine("gpu", 2), claim.DeviceLine("gpu", 1), claim.DeviceLine("disk", 0))
    wanted = claim.Claim(lines, nodes=4, scalars={"vcpu": 8, "memoryMiB": 0})
    assert claim.resources(wanted) == {"gpu": 12, "vcpu": 32}


@pytest.mark.parametrize(
    ("devices", "nodes", "count"),
    [
        ([("gpu", 8)], 1, 8),
        ([("gpu", 8)], 4, 32),
        ([("gpu.mig", 3), ("gpu.slot", 2)], 2, 10),
        ([("node", 1)], 3, 24),
        ([("nic.vf", 5), ("disk", 1)], 1, 0),
    ],
)
def test_gpu_count_is_one_per_gpu_slice_and_slot_and_a_whole_node_its_gpus(
    devices: list[tuple[claim.DeviceClass, int]], nodes: int, count: int
) -> None:
    wanted = claim.Claim(tuple(claim.DeviceLine(*line) for line in devices), nodes=nodes)
    assert claim.gpu_count(wanted, node_gpus=8) == count
