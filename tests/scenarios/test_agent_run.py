"""The agent as its operator starts it, on this machine: it joins, shows what is here, holds, dies and comes back."""

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from test_serve import BINARY, READY_S

import scripted
from adapters.agent import joining, protocol
from adapters.iam import demo
from fake_driver import Driver, gpu

T = TypeVar("T")


def until(look: Callable[[], T], seconds: float = READY_S) -> T:
    """What `look` gives once it gives something."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
    return seen


class Running:
    """A `serve` without a fleet, and what its operators ask of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        text, self._tokens = demo.demo_access()
        access, ready = home / "access.toml", home / "ready.json"
        access.write_text(text)
        command = (*BINARY, "serve", "--port", "0", "--data-dir", home / "data", "--access-file", access)
        with open(home / "log", "w") as log:
            self.process = subprocess.Popen((*command, "--ready-file", ready), stdout=log, stderr=log)
        until(lambda: ready.exists() or self.process.poll() is not None)
        assert ready.exists(), (home / "log").read_text()[-3000:]
        self.url = json.loads(ready.read_text())["url"]
        self._http = httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def ok(self, verb: str, path: str, body: Any = None, who: str = "root") -> Any:
        headers = {"authorization": f"Bearer {self._tokens[who]}", "idempotency-key": f"k{time.monotonic_ns()}"}
        answer = self._http.request(verb, f"/v1/{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    def upload(self, path: str, content: bytes, who: str = "root") -> None:
        headers = {"authorization": f"Bearer {self._tokens[who]}", "content-type": "application/octet-stream"}
        answer = self._http.put(f"/v1/{path}", content=content, headers=headers)
        assert answer.is_success, answer.text

    def stop(self) -> None:
        self._http.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(READY_S)


class Node:
    """`agent run` with a directory of its own, on a driver that is not there."""

    def __init__(self, running: Running, driver: Driver) -> None:
        self.running, self.driver = running, driver
        self.state, self.cdi = running.home / "agent", running.home / "cdi"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *more: str) -> tuple[Any, ...]:
        where = ("--server", self.running.url, "--state", self.state, "--cdi-dir", self.cdi)
        return (*BINARY, "agent", "run", *where, "--name", "metal-1", "--label", "rack=r7", *more)

    def environment(self, token: str | None) -> dict[str, str]:
        bare = {name: value for name, value in os.environ.items() if not name.startswith("BETTER_COMPUTE_")}
        with_token = {} if token is None else {"BETTER_COMPUTE_JOIN_TOKEN": token}
        return bare | {"PATH": f"{self.driver.bin}:{bare['PATH']}"} | with_token

    def start(self, token: str | None = None) -> None:
        with open(self.running.home / "agent.log", "a") as log:
            self.process = subprocess.Popen(
                self.command("--inventory-seconds", "1"), stdout=log, stderr=log, env=self.environment(token)
            )

    def refused(self, token: str | None = None) -> str:
        """What it says when it does not start."""
        done = subprocess.run(
            self.command(), capture_output=True, text=True, env=self.environment(token), timeout=READY_S, check=False
        )
        assert done.returncode == 1
        return done.stderr.strip().splitlines()[-1]

    def stop(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(READY_S)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.cdi.iterdir()) if self.cdi.exists() else []


@pytest.fixture
def running() -> Iterator[Running]:
    home = Path(tempfile.mkdtemp(prefix="better-compute-", dir="/tmp"))
    home.chmod(0o755)
    made = Running(home)
    yield made
    made.stop()
    shutil.rmtree(home)


@pytest.fixture
def node(running: Running) -> Iterator[Node]:
    made = Node(running, Driver(running.home, gpu(0), gpu(1)))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop(signal.SIGTERM)


def pool(running: Running) -> tuple[str, str]:
    """A site and in it a pool of H100s that acme may use."""
    site = running.ok("POST", "sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})["id"]
    wanted = {"name": "h100", "siteId": site, "class": "metal-host", "gpuModel": "H100", "gpuMemoryGb": 80}
    pool_id = running.ok("POST", "pools", wanted)["id"]
    running.ok("PUT", f"pools/{pool_id}/offers/acme", {"quota": {"gpu": 2}})
    return site, pool_id


def test_a_machine_joins_holds_dies_and_comes_back_as_the_same_node(running: Running, node: Node) -> None:
    site, pool_id = pool(running)
    assert "give it a token" in node.refused()
    assert "metal-1 could not join" in node.refused("bcjt_no_such_token")
    token = running.ok("POST", "join-tokens", {"siteId": site, "trust": "platform", "poolId": pool_id})["token"]
    node.start(token)

    def connected() -> Any:
        nodes = running.ok("GET", "nodes")["items"]
        return next((one for one in nodes if one["connectivity"] == "connected"), None)

    seen = until(connected)
    found = running.ok("GET", f"nodes/{seen['id']}/inventory")["inventory"]
    assert found["memory"]["totalMiB"] == int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    assert [card["uuid"] for card in found["gpus"]] == [card["uuid"] for card in node.driver.gpus]
    assert (seen["name"], seen["labels"]) == ("metal-1", {"rack": "r7"})
    assert stat.S_IMODE(node.state.stat().st_mode) == 0o700
    assert stat.S_IMODE((node.state / "identity.json").stat().st_mode) == 0o600
    assert "another agent runs" in node.refused()

    running.ok("POST", f"nodes/{seen['id']}/adopt", {})
    until(lambda: running.ok("GET", f"nodes/{seen['id']}")["schedulable"])
    wanted = {"poolId": pool_id, "devices": [{"class": "gpu", "count": 1}], "durationSeconds": 3600}
    made = running.ok("POST", "reservations", wanted, "acme")["id"]
    reservation = until(lambda: _in(running, made, "active"))
    (held,) = reservation["allocations"]
    file = json.loads((node.cdi / f"better-compute-{held['id']}.json").read_text())
    assert file["devices"][0]["containerEdits"]["env"] == [f"NVIDIA_VISIBLE_DEVICES={held['atoms'][0]}"]

    assert node.stop(signal.SIGKILL) == -signal.SIGKILL
    before = running.ok("GET", f"nodes/{seen['id']}")["connectivitySince"]
    node.start()
    until(lambda: running.ok("GET", f"nodes/{seen['id']}")["connectivitySince"] > before)
    assert node.files() == [f"better-compute-{held['id']}.json"]
    running.ok("POST", f"reservations/{made}/release", {}, "acme")
    until(lambda: _in(running, made, "released"))
    assert node.files() == []

    node.driver.change(1, name="NVIDIA H200")
    until(lambda: _gpu_names(running, seen["id"]) == {"NVIDIA H100 80GB HBM3", "NVIDIA H200"})
    assert node.stop(signal.SIGTERM) == 0
    until(lambda: running.ok("GET", f"nodes/{seen['id']}")["connectivity"] == "disconnected")
    assert len(running.ok("GET", "nodes")["items"]) == 1


def test_a_machine_does_what_it_is_told_and_is_adopted_by_what_it_shows(running: Running, node: Node) -> None:
    site, pool_id = pool(running)
    running.ok("PATCH", f"pools/{pool_id}", {"policy": {"acceptance": ["gpus-present", "gpu-health", "memory"]}})
    token = running.ok("POST", "join-tokens", {"siteId": site, "trust": "platform", "poolId": pool_id})["token"]
    node.start(token)
    seen = until(lambda: next(iter(running.ok("GET", "nodes?connectivity=connected")["items"]), None))
    assert running.ok("POST", f"nodes/{seen['id']}/adopt", {})["provisionState"] == "adopting"
    until(lambda: running.ok("GET", f"nodes/{seen['id']}")["provisionState"] == "adopted")
    told = []
    for name, ends in (("collect-diagnostics", "succeeded"), ("inspect", "succeeded"), ("gpu-reset", "succeeded")):
        params = {"gpuUuid": node.driver.gpus[0]["uuid"]} if name == "gpu-reset" else {}
        body = {"name": name, "params": params}
        told.append((running.ok("POST", f"nodes/{seen['id']}/commands", body)["id"], ends))
    for command_id, ends in told:
        done = until(lambda id=command_id: _ended(running, id))
        assert (done["status"], done["reason"]) == (ends, None), done
        assert done["acknowledgedAt"] <= done["finishedAt"]
    assert until(lambda: not running.ok("GET", f"nodes/{seen['id']}")["commands"])


def _ended(running: Running, command_id: str) -> Any:
    shown = running.ok("GET", f"commands/{command_id}")
    return shown if shown["finishedAt"] is not None else None


def _in(running: Running, reservation_id: str, state: str) -> Any:
    shown = running.ok("GET", f"reservations/{reservation_id}", who="acme")
    return shown if shown["state"] == state else None


def _gpu_names(running: Running, node_id: str) -> set[str]:
    return {card["name"] for card in running.ok("GET", f"nodes/{node_id}/inventory")["inventory"]["gpus"]}


def test_a_machine_whose_plane_is_away_waits_for_it_and_can_be_stopped(tmp_path: Path) -> None:
    where = ("--server", "http://127.0.0.1:9", "--state", tmp_path / "s", "--cdi-dir", tmp_path / "c")
    command = (*BINARY, "agent", "run", *where, "--join-token", "bcjt_x")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "could not join yet" in line
        assert "bcjt_x" not in line
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0


def test_an_upgraded_agent_starts_anew_in_its_own_process(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(_upgraded(tmp_path), READY_S))


async def _upgraded(tmp_path: Path) -> None:
    driver, state = Driver(tmp_path), joining.state_directory(tmp_path / "state")
    keys = joining.Keyring(state / "identity.json")
    keys.key("agent")
    keys.put(("agent", "node_1"))
    async with scripted.plane() as plane:
        where = ("--server", plane.address, "--state", state, "--cdi-dir", tmp_path / "cdi", "--root", driver.root)
        process = await asyncio.create_subprocess_exec(*BINARY, "agent", "run", *where, "--upgrade-command", "true")
        await scripted.until(lambda: plane.of(protocol.Status))
        await plane.command(1, "agent-upgrade", version="0.2.0")
        await scripted.until(lambda: plane.epoch == 2)
        first = plane.result(1)
        assert (first.outcome, first.epoch) == ("succeeded", 1)
        await plane.command(1, "agent-upgrade", version="0.2.0")
        await scripted.until(lambda: plane.result(1).epoch == 2)
        assert process.returncode is None
        process.terminate()
        assert await process.wait() == 0
