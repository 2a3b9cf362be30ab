"""How soon the fleet's page is there with 10,000 nodes, in a real browser (`make bench-console`).

`[--nodes 10000] [--rounds 7]`. Beside each round stands the sign-in page of the same server, which asks nothing: what
browser and machine take. A tenth of the nodes is out of service in one way or another, as in a fleet.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from adapters.ids import Mint
from adapters.postgres import embedded
from adapters.postgres.pool import pool as connections
from adapters.postgres.store import EventStore
from domain import node, schedulability
from domain.event import Append, Change, Meta
from projections import table
from tests.bench import figures, fleet
from tests.bench.plane import Plane, serving

CHROMIUM: Final = "/usr/bin/chromium"
PATIENCE_S: Final = 60
_AN_APPEND: Final = 100
_PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ANSWERED: Final = "performance.getEntriesByType('navigation')[0].responseEnd"
_MARKED: Final = "performance.getEntriesByName('fleet-map-{}')[0]?.startTime"
_MAP: Final = "performance.getEntriesByType('resource').find(one => one.name.includes('/fleet/map.json'))"
_SVG: Final = """cells => {
  const began = performance.now();
  const svg = document.body.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'svg'));
  for (const fill of ['green', 'red', 'blue', 'grey']) {
    const path = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
    let d = '';
    for (let n = 0; n < cells / 4; n++) d += `M${n % 100 * 12} ${Math.floor(n / 100) * 12}h10v10h-10z`;
    path.setAttribute('d', d);
    path.setAttribute('fill', fill);
  }
  svg.setAttribute('width', 1200); svg.setAttribute('height', cells / 100 * 12);
  svg.getBoundingClientRect();
  return new Promise(done => requestAnimationFrame(() => setTimeout(() => {
    done(performance.now() - began); svg.remove();
  })));
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with _home() as home:
        access = home / "access.toml"
        cast = fleet.write_access(access, clients=1)
        data = home / "data"
        with serving(data, "--access-file", str(access)) as plane, embedded.reached(data) as dsn:
            fleet.build(plane, dsn, cast, options.nodes)
            _trouble(plane, dsn, cast)
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
            rows = _measure(plane, cast, options.nodes, options.rounds)
            print(figures.table(f"The fleet's page with {options.nodes:,} nodes", rows))
            print(f"load at the end {os.getloadavg()[0]:.1f}")


@contextmanager
def _home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="bench-console-", dir="/var/tmp"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _trouble(plane: Plane, dsn: str, cast: fleet.Cast) -> None:
    """Every tenth node is cordoned, in maintenance or lost, in the log as commands and agents would write it."""
    rows = plane.ok("GET", "/v1/nodes/map", cast.root)["items"]
    position = 0
    with connections(dsn, 1, application_name="bench") as opened:
        store = EventStore(opened, table.INLINE, fleet.ROOT, Mint())
        ids = [row["id"] for row in rows[::10]]
        for begin in range(0, len(ids), _AN_APPEND):
            changes = [_out(store, id, begin + n) for n, id in enumerate(ids[begin : begin + _AN_APPEND])]
            position = store.append(Append(tuple(changes), Meta("controller:bench")))
    plane.ok("GET", f"/v1/nodes/map?limit=1&waitFor={position}", cast.root)


def _out(store: EventStore, id: str, number: int) -> Change:
    loaded, now = store.load(id), store.now()
    ways: tuple[node.Events, ...] = (
        node.Cordoned("fan", now),
        node.MaintenanceEntered("disk", now),
        node.ConnectivityChanged("lost", loaded.state.session, now),
    )
    return Change(id, loaded.version, tuple(schedulability.settle(loaded.state, [ways[number % len(ways)]], now)))


def _measure(plane: Plane, cast: fleet.Cast, nodes: int, rounds: int) -> list[tuple[str, str]]:
    base = f"http://{plane.host}:{plane.port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stranger = browser.new_page()
        signed = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        signed.goto(f"{base}/sign-in")
        signed.fill("input[name=token]", cast.root)
        signed.click("button.primary")
        found = [_round(stranger, signed, base, nodes) | _asked(plane, cast.root) for _ in range(rounds)]
        live = [_changed(plane, signed, cast.root) for _ in range(rounds)]
        browser.close()
    rows = [(name, figures.spread([one[name] for one in found])) for name in found[0]]
    return [*rows, ("from a cordon's answer to its cell on the open map, ms", figures.spread(live))]


def _round(stranger: Page, signed: Page, base: str, nodes: int) -> dict[str, float]:
    """In turns, so that what else the machine does falls on both; milliseconds from the start of navigation."""
    stranger.goto(f"{base}/sign-in")
    found = {"limit: sign-in page, first paint, ms": _when(stranger, _PAINTED)}
    signed.goto(f"{base}/")
    found["fleet page, answered, ms"] = _when(signed, _ANSWERED)
    found["fleet page, first paint, ms"] = _when(signed, _PAINTED)
    found["fleet page, map has its data, ms"] = _when(signed, _MARKED.format("data"))
    found["fleet page, map laid out, ms"] = _when(signed, _MARKED.format("drawn"))
    signed.get_by_text(f"{nodes:,} of {nodes:,} nodes shown").wait_for(timeout=PATIENCE_S * 1000)
    found["map's data on the wire, KiB"] = float(signed.evaluate(f"{_MAP}.transferSize / 1024"))
    found["map's data unpacked, KiB"] = float(signed.evaluate(f"{_MAP}.decodedBodySize / 1024"))
    found["as many cells as four SVG paths, drawn, ms"] = float(stranger.evaluate(_SVG, nodes))
    return found


def _asked(plane: Plane, token: str) -> dict[str, float]:
    """What the page asks, each by itself over HTTP."""
    found = {}
    for name, path in (("nodes.map", "nodes/map"), ("nodes.count", "nodes/count"), ("capacity.list", "capacity")):
        began = time.perf_counter()
        plane.ok("GET", f"/v1/{path}", token)
        found[f"{name}, ms"] = (time.perf_counter() - began) * 1000
    return found


def _changed(plane: Plane, signed: Page, token: str) -> float:
    """Cordon a node that is in service; milliseconds until the map's legend counts one more."""
    cell = plane.ok("GET", "/v1/nodes/map?schedulable=true&limit=1", token)["items"][0]
    counted = "button[data-state=cordoned]"
    before = signed.inner_text(counted)
    plane.ok("POST", f"/v1/nodes/{cell['id']}/cordon", token, {"reason": "fan"})
    began = time.perf_counter()
    while signed.inner_text(counted) == before:
        if time.perf_counter() - began > PATIENCE_S:
            raise RuntimeError(f"the map never showed that {json.dumps(cell['name'])} is cordoned")
        signed.wait_for_timeout(20)
    return (time.perf_counter() - began) * 1000


def _when(page: Page, expression: str) -> float:
    """The value, once there is one; a page's own policy forbids the waiting that Playwright brings."""
    deadline = time.monotonic() + PATIENCE_S
    value: Any = None
    while value is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{expression} had no value within {PATIENCE_S} s")
        value = page.evaluate(expression)
        page.wait_for_timeout(10)
    return float(value)


if __name__ == "__main__":
    main()
