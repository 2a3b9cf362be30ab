"""What people see, compared letter by letter with what is kept beside this: real commands against the real plane.

Rewritten on purpose with `GOLDEN=write`; ids and instants are put in the order in which they are seen.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridged import bridged, on_terminal
from click.testing import CliRunner

from adapters.cli import main, watching
from given import Plane

GOLDEN = Path(__file__).parent / "golden"
DAY_MS = 86_400_000
LATER = (time.time_ns() // 1_000_000 // DAY_MS + 1200) * DAY_MS
"""A midnight in three years: what begins then has an age that no test outlives."""

_ID = re.compile(r"\b([a-z]+)_([0-9a-z]{26,52})\b|\b(GPU)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INSTANT = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z")
_SECOND = re.compile(r"(?<=^== )2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z", re.MULTILINE)


def steady(text: str) -> str:
    """The same text each time: ids by the order in which they come, as long as they were; instants as one."""
    known: dict[str, str] = {}
    seen: Counter[str] = Counter()

    def named(found: re.Match[str]) -> str:
        kind = found[1] or "GPU"
        if found[0] not in known:
            seen[kind] += 1
            known[found[0]] = f"{kind}{found[0][len(kind)]}{seen[kind]:0{len(found[0]) - len(kind) - 1}}"
        return known[found[0]]

    text = _SECOND.sub("2026-01-01T00:00:00Z", _INSTANT.sub("2026-01-01T00:00:00.000Z", _ID.sub(named, text)))
    text = re.sub(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T(?=0[01]:00:00Z)", "2100-01-01T", text)
    text = re.sub(r"_…[0-9a-z]+", lambda found: f"_…{1:0{len(found[0]) - 2}}", text)
    text = re.sub(r"--cursor \S{20,}", "--cursor …", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "0" * 64, text)
    text = re.sub(r'"(\w+At)": 1[0-9]{12}\b', r'"\1": 1767225600000', text)
    return re.sub(r"request id: \w+", "request id: …", text)


def check(name: str, line: str, shown: str, status: int) -> None:
    """Compare with the file, or with GOLDEN=write write it."""
    text = steady(f"$ better-compute {line}\n{shown.rstrip()}\n[{status}]\n")
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert file.exists(), f"{file} is missing: GOLDEN=write makes it"
    assert text == file.read_text(), f"{file.name} differs; GOLDEN=write keeps what is shown now"


@pytest.fixture
def fleet(plane: Plane) -> tuple[Plane, dict[str, str]]:
    """A site, a pool offered to acme, two nodes of which one is cordoned, a reservation that begins in three years."""
    pool_id, (_, second) = plane.fleet(2)
    plane.root.ok("POST", f"/v1/nodes/{second}/cordon", {"reason": "fan 2 is loud"})
    reserved = plane.acme.reserve(pool_id, startsAt=LATER).json()
    plane.settle()
    return plane, {"pool": pool_id, "node": second, "rsv": reserved["id"]}


@pytest.fixture
def environment(fleet) -> Iterator[dict[str, str]]:
    with bridged(fleet[0]) as address:
        yield {
            "BETTER_COMPUTE_SERVER": address,
            "BETTER_COMPUTE_CONFIG": "/nonexistent/config.toml",
            "COLUMNS": "80",
        }


def token(plane: Plane, who: str) -> dict[str, str]:
    return {"BETTER_COMPUTE_TOKEN": getattr(plane, who).headers["authorization"].removeprefix("Bearer ")}


def run(line: str, environment: dict[str, str]) -> tuple[str, int]:
    """Standard output and standard error as a terminal would mix them."""
    ran = CliRunner().invoke(main.Root(), line.split(), env=environment, prog_name="better-compute")
    return ran.output, ran.exit_code


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("help", "--help"),
        ("help-nodes", "nodes --help"),
        ("help-nodes-list", "nodes list --help"),
        ("help-reservations-create", "reservations create --help"),
        ("help-profile", "profile --help"),
        ("usage-unknown", "gpus list"),
        ("usage-missing", "nodes cordon node_x"),
        ("usage-instant", "nodes list --as-of yesterday"),
    ],
)
def test_help_and_wrong_usage(name, line):
    check(name, line, *run(line, {"COLUMNS": "80"}))


SHOWN = [
    ("sites-list", "root", "sites list"),
    ("sites-list-json", "root", "sites list --json"),
    ("pools-list", "root", "pools list"),
    ("pools-offers", "root", "pools offers {pool}"),
    ("nodes-list", "root", "nodes list"),
    ("nodes-list-page", "root", "nodes list --limit 1"),
    ("nodes-get", "root", "nodes get {node}"),
    ("nodes-drain", "root", "nodes drain {node} --reason fan --wait"),
    ("nodes-none", "acme", "nodes list --connectivity lost"),
    ("devices-list", "root", "devices list --limit 2"),
    ("capacity-list", "acme", "capacity list"),
    ("reservations-list", "acme", "reservations list"),
    ("reservations-get", "acme", "reservations get {rsv}"),
    ("reservations-preview", "acme", "reservations preview --pool-id {pool} --devices gpu=9 --duration-seconds 60"),
    ("bookings-list", "acme", "bookings list --from +1000d --until +1300d"),
    ("problem-quota", "acme", "reservations create --pool-id {pool} --devices gpu=8 --nodes 2 --duration-seconds 60"),
    ("problem-foreign", "globex", "reservations get {rsv}"),
    ("problem-denied", "acme", "sites create --name x --kind shared --iam-region eu"),
    ("problem-invalid", "root", "sites create --name north! --kind shared --iam-region eu"),
    ("problem-token", "nobody", "nodes list"),
    ("profile-none", "root", "profile list"),
]


@pytest.mark.parametrize(("name", "who", "line"), SHOWN, ids=[name for name, *_ in SHOWN])
def test_answers_and_problems(fleet, environment, name, who, line):
    plane, ids = fleet
    check(name, line.format(**ids), *run(line.format(**ids), environment | token(plane, who)))


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize(("noun", "who"), [("nodes", "root"), ("reservations", "acme")])
def test_tables_fit_the_terminal(fleet, environment, noun, who, columns):
    shown, status = on_terminal([noun, "list"], environment | token(fleet[0], who), columns)
    check(f"terminal-{noun}-{columns}", f"{noun} list", shown, status)
    assert max(len(line) for line in shown.split("\n") if not line.startswith("no room")) <= columns


@pytest.mark.parametrize("line", ["sites list --watch", "sites list --watch --json"])
def test_what_changes_is_a_block_or_a_line(fleet, environment, monkeypatch, line):
    plane, _ = fleet
    pauses = iter(("same", "new", "end"))

    def pause(seconds: float) -> None:
        match next(pauses):
            case "new":
                plane.site("south")
                plane.settle()
            case "end":
                raise KeyboardInterrupt

    monkeypatch.setattr(watching, "pause", pause)
    check("watch-json" if "--json" in line else "watch", line, *run(line, environment | token(plane, "root")))
