"""How soon the fleet's page is there with 10,000 nodes, in a real browser (`make bench-console`).

Beside each figure stands the sign-in page's of the same server, which asks nothing: what browser and machine take.
"""

import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from adapters.postgres import embedded
from tests.bench import fleet
from tests.bench.plane import serving

NODES: Final = 10_000
ROUNDS: Final = 7
CHROMIUM: Final = "/usr/bin/chromium"
_PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_LOADED: Final = "performance.getEntriesByType('navigation')[0].responseEnd"
_DRAWN: Final = f"{NODES:,} of {NODES:,} nodes shown"


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="bench-console-", dir="/var/tmp"))
    home.chmod(0o755)
    try:
        access = home / "access.toml"
        cast = fleet.write_access(access, clients=1)
        data = home / "data"
        with serving(data, "--access-file", str(access)) as plane, embedded.reached(data) as dsn:
            fleet.build(plane, dsn, cast, NODES)
            _measure(f"http://{plane.host}:{plane.port}", cast.root)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _measure(base: str, token: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        stranger = browser.new_page()
        signed = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        signed.goto(f"{base}/sign-in")
        signed.fill("input[name=token]", token)
        signed.click("button.primary")
        rounds = [_round(stranger, signed, base) for _ in range(ROUNDS)]
        for name in rounds[0]:
            values = [one[name] for one in rounds]
            print(f"{name:36} {median(values):8.0f}  ({min(values):.0f}-{max(values):.0f})")
        browser.close()


def _round(stranger: Page, signed: Page, base: str) -> dict[str, float]:
    """In turns, so that what else the machine does falls on both; milliseconds from the start of navigation."""
    stranger.goto(f"{base}/sign-in")
    found: dict[str, Any] = {"sign-in page, first paint, ms": _when(stranger, _PAINTED)}
    signed.goto(f"{base}/")
    found["fleet page, answered, ms"] = _when(signed, _LOADED)
    found["fleet page, first paint, ms"] = _when(signed, _PAINTED)
    signed.get_by_text(_DRAWN).wait_for(timeout=60_000)
    found["fleet page, map drawn, ms"] = signed.evaluate("performance.now()")
    found["map's data, KiB on the wire"] = signed.evaluate(
        "performance.getEntriesByType('resource').filter(one => one.initiatorType === 'fetch')"
        ".reduce((sum, one) => sum + one.transferSize, 0) / 1024"
    )
    return found


def _when(page: Page, expression: str) -> float:
    """The value, once there is one; a page's own policy forbids the waiting that Playwright brings."""
    while (value := page.evaluate(expression)) is None:
        page.wait_for_timeout(10)
    return float(value)


if __name__ == "__main__":
    main()
