"""`better-compute inventory`: documents in and out, errors in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from adapters.cli.inventory import inventory

FIXTURES = Path(__file__).parents[2] / "fixtures" / "inventory"


def call(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(inventory, arguments, input=given)


def test_collect_prints_this_machine_and_fingerprint_reads_it() -> None:
    printed = call("collect")
    assert printed.exit_code == 0
    found = call("fingerprint", "-", given=printed.stdout)
    assert found.exit_code == 0
    assert set(json.loads(found.stdout)) == {"fingerprint", "trusted", "identifiers"}


def test_from_joins_files_of_one_machine() -> None:
    printed = call(
        "from",
        "--nvidia-smi",
        str(FIXTURES / "smi-h100-mig.xml"),
        "--nvidia-smi",
        str(FIXTURES / "smi-list-h100-mig.txt"),
        "--dmidecode",
        str(FIXTURES / "dmidecode-server.txt"),
        "--lsblk",
        str(FIXTURES / "lsblk-multipath-raid.json"),
        "--lshw",
        str(FIXTURES / "lshw-server.json"),
    )
    assert printed.exit_code == 0
    found = json.loads(call("fingerprint", "-", given=printed.stdout).stdout)
    assert found["trusted"] is True
    assert "serial:EXS471109" in found["identifiers"]


def test_o28_placeholders_alone_give_no_fingerprint() -> None:
    printed = call("from", "--dmidecode", str(FIXTURES / "dmidecode-placeholder.txt"))
    found = call("fingerprint", "-", given=printed.stdout)
    assert json.loads(found.stdout) == {"fingerprint": None, "trusted": False, "identifiers": []}
    assert found.stderr == "reason: no identifier could be read: run as root on the machine itself\n"


def test_diff_prints_what_differs_between_two_files(tmp_path: Path) -> None:
    one = call(
        "from", "--dmidecode", str(FIXTURES / "dmidecode-server.txt"), "--ip-link", str(FIXTURES / "ip-link.json")
    )
    other = call("from", "--dmidecode", str(FIXTURES / "dmidecode-server.txt"))
    for name, printed in (("one", one), ("other", other)):
        (tmp_path / name).write_text(printed.stdout)
    same = call("diff", str(tmp_path / "one"), "-", given=one.stdout)
    assert (same.exit_code, json.loads(same.stdout)) == (0, [])
    found = json.loads(call("diff", str(tmp_path / "one"), str(tmp_path / "other")).stdout)
    assert {change["section"] for change in found} == {"nics"}
    assert {change["after"] for change in found} == {None}


@pytest.mark.parametrize(
    "arguments",
    [
        ("from",),
        ("from", "--lsblk", "/does/not/exist"),
        ("from", "--lsblk", "/"),
        ("from", "--nvidia-smi", str(FIXTURES / "lshw-server.json")),
        ("from", "--lshw", str(FIXTURES / "dmidecode-server.txt")),
        ("fingerprint", str(FIXTURES / "lshw-server.json")),
        ("fingerprint", "/does/not/exist"),
        ("diff", str(FIXTURES / "lshw-server.json"), "/does/not/exist"),
        ("fingerprint", str(FIXTURES / "smi-h100-mig.xml")),
    ],
)
def test_a_mistake_is_one_line_and_a_non_zero_exit(arguments: tuple[str, ...]) -> None:
    failed = call(*arguments)
    assert failed.exit_code == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("error: ")
    assert failed.stderr.count("\n") == 1


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from adapters.cli.inventory import inventory;"
        "print([m for m in ('msgspec', 'subprocess', 'xml', 'domain.inventory') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "msgspec" not in done.stdout
    assert "domain.inventory" not in done.stdout
