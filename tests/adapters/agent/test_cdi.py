"""A CDI file says exactly what one allocation gives, and is known again as what was written."""

import json

import pytest
from fake_plane import allocation

from adapters.agent import cdi

GPU = "GPU-00000000-0000-4000-8000-000000000001"
HELD = allocation("alc_1", f"nvidia.com/gpu={GPU}")
NODES = ("/dev/nvidia3", "/dev/nvidiactl")


def written():
    return cdi.write(HELD, "boot-1", (GPU,), NODES)


def test_a_file_is_cdi_0_6_with_one_device_of_the_allocations_name():
    file = json.loads(written())
    assert (file["cdiVersion"], file["kind"]) == ("0.6.0", "better-compute.io/allocation")
    (device,) = file["devices"]
    assert device["name"] == "alc_1"
    assert device["containerEdits"] == {
        "env": [f"NVIDIA_VISIBLE_DEVICES={GPU}"],
        "deviceNodes": [{"path": "/dev/nvidia3"}, {"path": "/dev/nvidiactl"}],
    }
    assert all(isinstance(value, str) and "/" in key for key, value in file["annotations"].items())


def test_a_file_is_read_as_what_was_written():
    assert cdi.read(written()) == (HELD, "boot-1")


def test_an_allocation_without_gpus_lets_nobody_see_any():
    edits = json.loads(cdi.write(allocation("a"), "b", (), ()))["devices"][0]["containerEdits"]
    assert edits == {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": []}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(b"nvidia3", b"nvidia4"),
        lambda text: text.replace(b'"name": "alc_1"', b'"name": "alc_2"'),
        lambda text: text.replace(b"0.6.0", b"0.5.0"),
        lambda text: text.replace(b"better-compute.io/digest", b"better-compute.io/other"),
        lambda text: b"",
        lambda text: b"\xff",
    ],
)
def test_what_is_not_as_it_was_written_is_damaged(change):
    with pytest.raises(cdi.Damaged):
        cdi.read(change(written()))


@pytest.mark.parametrize("name", ["alc_01m8m8yectdggbkf583ehvh0pv", "a", "A-b.c_9"])
def test_an_id_may_name_a_device(name):
    assert cdi.is_name(name)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".a", "a.", "a\n", "a b", "x" * 121, "é"])
def test_what_could_be_a_path_or_no_cdi_name_may_not(name):
    assert not cdi.is_name(name)


@pytest.mark.parametrize("name", ["GPU-1", "vendor.com/fpga=1", "nvidia.com/gpu=", "nvidia.com/gpu=a,b", "a=b=c"])
def test_other_devices_than_nvidias_are_not_known(name):
    with pytest.raises(ValueError, match="no device of nvidia"):
        cdi.uuid_of(name)
