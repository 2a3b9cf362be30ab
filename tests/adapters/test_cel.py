"""Rules of device selectors in CEL."""

import subprocess
import sys

import pytest

from adapters import cel
from domain import calendar, errors

NODE = calendar.Node("node_a", "a", {"rack": "r1"})
GPU = calendar.Atom("g0", "gpu", {"numa": 1, "driver": "550.54", "ecc": True}, "H100-SXM5-80GB", "H100", memory_gb=80)
SELECTORS = cel.CelSelectors()


def matches(text: str, device: calendar.Atom = GPU) -> bool:
    return SELECTORS.compile(text).matches(device, NODE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("device.gpuModel == 'H100'", True),
        ("device.gpuProduct in ['H100-SXM5-80GB', 'H100-PCIE-80GB']", True),
        ("device.memoryGb > 80", False),
        ("device.class == 'gpu' && node.labels.rack == 'r1'", True),
        ("node.labels['rack'].startsWith('s')", False),
        ("node.name == 'a'", True),
        ("device.attributes.ecc == true && device.attributes.numa == 1", True),
        ("has(device.attributes.pcie)", False),
        ("!has(device.attributes.pcie) || device.attributes.pcie == 4", True),
    ],
)
def test_a_selector_sees_device_and_node(text: str, expected: bool) -> None:
    assert matches(text) is expected


def test_a_device_without_the_attribute_does_not_match_and_the_others_still_do() -> None:
    devices = [calendar.Atom(f"g{i}", "gpu", {"numa": i % 2} if i else {}) for i in range(8)]
    assert [matches("device.attributes.numa == 1", device) for device in devices] == [False, True] * 4
    others = [matches("device.attributes.numa != 1", device) for device in devices]
    assert others == [False, False, True, False, True, False, True, False]


@pytest.mark.parametrize(
    "text", ["device.attributes.driver > 3", "1 / (device.memoryGb - 80) == 1", "node.labels.zone == 'z'"]
)
def test_what_fails_on_a_device_does_not_match_it(text: str) -> None:
    assert matches(text) is False


def test_an_attribute_too_large_for_cel_hides_only_itself() -> None:
    device = calendar.Atom("g0", "gpu", {"serial": 2**70, "numa": 0})
    assert matches("device.attributes.numa == 0", device)
    assert not matches("device.attributes.serial > 0", device)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Syntax error"),
        ("device.gpuModel ==", "Syntax error"),
        ("device.gpsu == 1", "undeclared reference to 'device.gpsu' (line 1, column 7)"),
        ("device.memoryGb == '80'", "no matching overload"),
        ("device.memoryGb", "yields int, not a boolean"),
        ("device.attributes.ecc", "has no declared type"),
        ("[1, 2].all(a, a > 0)", "undeclared reference"),
        ("device.gpuModel.matches('H.*')", "undeclared reference to 'matches'"),
        ("true || " * 400 + "true", "longer than 2048"),
        ("(" * 500 + "true" + ")" * 500, "recursion"),
        ("'\ud800' == 'a'", "cannot be printed"),
        ("\x00", "cannot be printed"),
    ],
)
def test_a_malformed_selector_is_refused_naming_its_field(text: str, says: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        SELECTORS.compile(text, "devices[2].selector")
    (named,) = refused.value.errors
    assert named.field == "devices[2].selector"
    assert says in named.message
    assert "\n" not in named.message


def test_compiled_selectors_are_remembered_up_to_a_bound() -> None:
    selectors = cel.CelSelectors(remembered=2)
    first = selectors.compile("1 == 1")
    assert selectors.compile("1 == 1") is first
    selectors.compile("1 == 2")
    selectors.compile("1 == 3")
    assert selectors.compile("1 == 1") is not first


def test_importing_the_adapter_does_not_load_the_runtime() -> None:
    program = "import sys, adapters.cel; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
