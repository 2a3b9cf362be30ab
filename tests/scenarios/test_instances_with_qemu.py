"""A real virtual machine from a signed image to its end, with the plane and the agent as their operators start them."""

import base64
import hashlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from test_agent_run import Node, Running, node, pool, running, until  # noqa: F401

import qemus
import tiny_guest
from fake_driver import Driver, gpu

pytestmark = qemus.needed


class Host(Node):
    """A node whose agent runs instances with QEMU."""

    network = "user"

    def command(self, *more: str) -> tuple[Any, ...]:
        return super().command("--driver", "qemu", "--accelerator", "tcg", "--network", self.network, *more)


@pytest.fixture
def host(running: Running) -> Iterator[Host]:  # noqa: F811
    made = Host(running, Driver(running.home, gpu(0)))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop(signal.SIGKILL)
    qemus.kill(made.state)


def tiny_image(running: Running, content: bytes = b"") -> str:  # noqa: F811
    """A public image, of a guest of one sector if nothing else is said, uploaded, and signed by somebody who may."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    running.ok("PUT", "image-signers", {"signers": [{"name": "builder", "publicKey": public}]})
    content = content or tiny_guest.disk()
    about = {"name": "tiny", "imageVersion": "1", "format": "raw", "visibility": "public", "sizeBytes": len(content)}
    made = running.ok("POST", "images", about | {"sha256": hashlib.sha256(content).hexdigest()})
    running.upload(f"images/{made['id']}/content", content)
    signature = base64.b64encode(key.sign(made["statement"].encode())).decode()
    running.ok("POST", f"images/{made['id']}/signatures", {"signature": signature})
    return str(made["id"])


def connected_pool(running: Running, host: Host) -> str:  # noqa: F811
    """A pool for instances with this machine in it."""
    site = running.ok("POST", "sites", {"name": "north", "kind": "shared", "iamRegion": "eu-north"})["id"]
    wanted = {"name": "vps", "siteId": site, "class": "vps-host", "gpuModel": "H100", "gpuMemoryGb": 80}
    pool_id = running.ok("POST", "pools", wanted)["id"]
    running.ok("PUT", f"pools/{pool_id}/offers/acme", {"quota": {"vcpu": 1, "memoryMiB": 1024}})
    token = running.ok("POST", "join-tokens", {"siteId": site, "trust": "platform", "poolId": pool_id})["token"]
    host.start(token)
    seen = until(lambda: next(iter(running.ok("GET", "nodes?connectivity=connected")["items"]), None))
    running.ok("POST", f"nodes/{seen['id']}/adopt", {})
    until(lambda: running.ok("GET", f"nodes/{seen['id']}")["schedulable"])
    return str(pool_id)


def test_an_image_is_launched_seen_stopped_and_deleted_and_nothing_is_left(running: Running, host: Host) -> None:  # noqa: F811
    image_id, pool_id = tiny_image(running), connected_pool(running, host)
    flavor_id = running.ok("POST", "flavors", {"name": "nano", "vcpu": 1, "memoryGiB": 1, "diskGiB": 1})["id"]
    body = {"name": "web", "poolId": pool_id, "flavorId": flavor_id, "imageId": image_id}
    body |= {"userData": base64.b64encode(b"#cloud-config\n").decode()}
    path = f"instances/{running.ok('POST', 'instances', body, 'acme')['id']}"

    def state(wanted: str) -> Any:
        shown = running.ok("GET", path, who="acme")
        assert shown["state"] == wanted or shown["state"] != "failed", shown
        return shown if shown["state"] == wanted else None

    def printed(text: str, times: int = 1) -> bool:
        tail = running.ok("GET", f"{path}/console", who="acme")["tail"]
        return bool(tail.count(text) >= times)

    shown = until(lambda: state("running"))
    assert (shown["desiredState"], shown["addresses"]) == ("running", ["10.0.2.15"])
    until(lambda: printed(tiny_guest.UP) and printed(tiny_guest.SEED))
    (machine,) = qemus.running(host.state)

    host.stop(signal.SIGKILL)
    assert qemus.running(host.state) == [machine], "machines outlive the agent"
    host.start()
    running.ok("POST", f"{path}/reboot", {}, "acme")
    until(lambda: printed(tiny_guest.SEED, 2) and state("running"))
    assert qemus.running(host.state) == [machine]

    running.ok("POST", f"{path}/stop", {}, "acme")
    until(lambda: state("stopped") and printed(tiny_guest.OFF, 2))
    assert qemus.running(host.state) == []
    running.ok("POST", f"{path}/start", {}, "acme")
    until(lambda: state("running") and printed(tiny_guest.SEED, 3))

    running.ok("POST", f"{path}/delete", {}, "acme")
    ended = until(lambda: state("deleted"))
    assert ended["desiredState"] == "deleted"
    assert qemus.running(host.state) == []
    assert list((host.state / "instances").iterdir()) == []
    assert host.files() == [], "its allocation is torn down too"
    reservation = running.ok("GET", f"reservations/{shown['reservationId']}", who="acme")
    assert reservation["state"] == "released"

    assert host.stop(signal.SIGTERM) == 0
    host.network = "bridge=none0"
    assert host.refused() == "error: instances cannot run on this machine: this machine has no bridge none0"


FETCHING, MAKING = "agent/images/.*.part", "agent/instances/inst_*"


@pytest.mark.parametrize("sign", [FETCHING, MAKING], ids=["fetching", "making"])
def test_an_agent_killed_while_creating_goes_on_and_makes_one_machine(running: Running, host: Host, sign: str) -> None:  # noqa: F811
    """It is killed as soon as there is this sign of what it is at."""
    image_id, pool_id = tiny_image(running, tiny_guest.disk().ljust(256 << 20, b"\0")), connected_pool(running, host)
    flavor_id = running.ok("POST", "flavors", {"name": "nano", "vcpu": 1, "memoryGiB": 1, "diskGiB": 1})["id"]
    body = {"name": "web", "poolId": pool_id, "flavorId": flavor_id, "imageId": image_id}
    made = running.ok("POST", "instances", body, "acme")
    until(lambda: list(running.home.glob(sign)))
    host.stop(signal.SIGKILL)

    host.start()
    until(lambda: running.ok("GET", f"instances/{made['id']}", who="acme")["state"] == "running")
    assert len(qemus.running(host.state)) == 1
    assert list(running.home.glob(FETCHING)) == []
    running.ok("POST", f"instances/{made['id']}/delete", {}, "acme")
    until(lambda: running.ok("GET", f"instances/{made['id']}", who="acme")["state"] == "deleted")
    assert (qemus.running(host.state), host.files()) == ([], [])
