"""What tests start from: a running plane, clients, and a fleet whose agents a test speaks for."""

import base64
import hashlib
import itertools
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from litestar.testing import TestClient

from adapters import main
from adapters.http.limits import Limits
from adapters.iam import demo, resolver_key
from commands import agents
from domain import node_spec

DEADLINE_S = 20.0
RESOLVER = "the-key-of-the-better-iam-host-0001"
_numbers = itertools.count()


NAMES = {
    "H100": ("NVIDIA H100 80GB HBM3", 81559),
    "L4": ("NVIDIA L4", 23034),
    "A100": ("NVIDIA A100-SXM4-80GB", 81920),
}


def inventory(model: str = "H100", gpus: int = 8, index: int = 0) -> dict[str, Any]:
    """A small valid inventory; machines of different `index` share no identifier."""
    name, memory = NAMES[model]
    return {
        "schema": "NodeInventory/v1",
        "system": {
            "productUuid": str(uuid.UUID(int=(index + 1) << 64 | 0xA1B2C3D4)),
            "serialNumber": f"SN{index:06d}X",
        },
        "cpu": {"threads": 96},
        "memory": {"totalMiB": 1_048_576},
        "gpus": [
            {
                "uuid": f"GPU-{uuid.UUID(int=(index + 1) << 64 | gpu + 1)}",
                "name": name,
                "memoryMiB": memory,
                "numaNode": gpu // 4,
            }
            for gpu in range(gpus)
        ],
        "nics": [{"mac": f"b8:3f:d2:{index >> 16 & 255:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"}],
    }


SEVEN = [{"profile": "1g.10gb", "start": start} for start in range(7)]
"""A MIG layout of seven small slices of an A100 80GB."""


def partitioned(gpus: int = 1, index: int = 0) -> dict[str, Any]:
    """The inventory of a node whose A100s are cut as in SEVEN."""
    found = inventory("A100", gpus, index)
    for card in found["gpus"]:
        slices = [
            {
                "gi": 7 + n,
                "ci": 0,
                "profile": "1g.10gb",
                "start": n,
                "uuid": f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, card['uuid'] + str(n))}",
            }
            for n in range(7)
        ]
        card |= {"migMode": "enabled", "migInstances": slices}
    return found


BYTES = b"image".ljust(512)
"""What an image has if nothing else is said."""


class Client:
    """Speaks to the real application as one identity."""

    def __init__(self, app: TestClient[Any], token: str) -> None:
        self._app = app
        self.headers = {"authorization": f"Bearer {token}"}

    def call(self, verb: str, path: str, body: Any = None, **headers: str) -> Any:
        """A body of bytes goes as it is, any other as JSON."""
        if isinstance(body, bytes):
            return self.raw(verb, path, body, **{"content_type": "application/octet-stream"} | headers)
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._app.request(verb, path, json=body, headers=self.headers | extra)

    def raw(self, verb: str, path: str, body: bytes, **headers: str) -> Any:
        """As `call`, with bytes that need not be JSON and headers that need not be text."""
        extra = {name.replace("_", "-"): value.encode("latin-1") for name, value in headers.items()}
        known = {name: value.encode() for name, value in self.headers.items()}
        return self._app.request(verb, path, content=body, headers=known | extra)

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, None, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, {} if body is None else body, **headers)

    def ok(self, verb: str, path: str, body: Any = None, **headers: str) -> Any:
        """The body of an answer that must be a success."""
        answer = self.call(verb, path, body, **headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def reserve(self, pool_id: str, key: str | None = None, **fields: Any) -> Any:
        body = {
            "poolId": pool_id,
            "devices": [{"class": "gpu", "count": 1}],
            "durationSeconds": 3600,
        } | fields
        key = f"key-{next(_numbers)}" if key is None else key
        return self.call("POST", "/v1/reservations", body, Idempotency_Key=key)

    def launch(self, pool_id: str, flavor_id: str, image_id: str, key: str | None = None, **fields: Any) -> Any:
        """The answer to a request for an instance."""
        body = {"name": "web", "poolId": pool_id, "flavorId": flavor_id, "imageId": image_id} | fields
        key = f"key-{next(_numbers)}" if key is None else key
        return self.call("POST", "/v1/instances", body, Idempotency_Key=key)


class Plane:
    """The product under test, and shortcuts that say what a test needs and nothing else."""

    def __init__(self, wired: main.Plane, app: TestClient[Any], tokens: dict[str, str], access: Path) -> None:
        self.wired = wired
        self.access = access
        self.store = wired.store
        self.app = app
        self.root, self.operator = Client(app, tokens["root"]), Client(app, tokens["operator"])
        self.auditor = Client(app, tokens["auditor"])
        self.acme, self.globex = Client(app, tokens["acme"]), Client(app, tokens["globex"])
        self.acme_user, self.globex_user = Client(app, tokens["acme-user"]), Client(app, tokens["globex-user"])
        self.nobody = Client(app, "biam_key_unknown")
        self.signer = Ed25519PrivateKey.generate()

    def head(self) -> int:
        """The position of the last event in the log."""
        return self._last()

    def events(self, stream: str) -> list[Any]:
        """What the log holds of one thing, oldest first."""
        return [recorded.event for recorded in self.store.history(stream)]

    def refusals(self, after: int = 0) -> list[Any]:
        """The refusals recorded after a position, with the stream of each."""
        sql = "SELECT DISTINCT originator_id FROM stored_events WHERE notification_id > %s AND topic LIKE %s"
        with self.wired.reads.connection() as connection:
            streams = connection.execute(sql, (after, "admission.refus%")).fetchall()
        return [event for (stream,) in sorted(streams) for event in self.events(stream)]

    def rows(self, sql: str, *params: Any) -> list[Any]:
        """Rows of a table, for what no answer shows."""
        with self.wired.reads.connection() as connection:
            return connection.execute(sql, params).fetchall()  # type: ignore[arg-type]

    def until_state(self, reservation_id: str, *states: str) -> str:
        """The reservation's state once it is the first of these; for callers who may not look themselves."""
        deadline = time.monotonic() + DEADLINE_S
        while (status := self.store.load(reservation_id).state.status) != states[0]:
            assert status in states, f"it went to {status}"
            assert time.monotonic() < deadline, f"still {status}"
            self.wired.follower.wait(self.wired.follower.position + 1, 0.05)
        return str(status)

    def activate(self, client: Client, reservation_id: str) -> Any:
        """Bind a placed reservation and let its nodes prepare it."""
        bound = self.until(client, reservation_id, "binding", "active")
        for allocation in bound["allocations"]:
            self.report(allocation["nodeId"])
        return self.until(client, reservation_id, "active")

    def settle(self) -> int:
        """Wait until the read models show everything that is in the log; return the position."""
        head = self.wired.head()
        assert self.wired.follower.wait(head, DEADLINE_S) or self.wired.follower.position >= self._last()
        return head

    def _last(self) -> int:
        with self.wired.reads.connection() as connection:
            row = connection.execute("SELECT coalesce(max(notification_id), 0) FROM stored_events").fetchone()
        return int(row[0]) if row else 0

    def until(self, client: Client, reservation_id: str, *states: str) -> Any:
        """The reservation once it is in one of the states."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            shown = client.ok("GET", f"/v1/reservations/{reservation_id}")
            if shown["state"] in states:
                return shown
            assert time.monotonic() < deadline, f"still {shown['state']} ({shown['stateReason']})"
            self.wired.follower.wait(self.wired.follower.position + 1, 0.05)

    def site(self, name: str = "north", by: Client | None = None, **fields: Any) -> str:
        body = {"name": name, "kind": "shared", "iamRegion": "eu-north"} | fields
        return str((by or self.root).ok("POST", "/v1/sites", body)["id"])

    def pool(self, site_id: str, name: str = "h100", by: Client | None = None, **fields: Any) -> str:
        body = {
            "name": name,
            "siteId": site_id,
            "class": "metal-host",
            "gpuModel": "H100",
            "gpuMemoryGb": 80,
        } | fields
        return str((by or self.root).ok("POST", "/v1/pools", body)["id"])

    def offer(self, pool_id: str, tenant: str = "acme", gpu: int = 8, by: Client | None = None, **fields: Any) -> Any:
        body = {"quota": {"gpu": gpu}} | fields
        return (by or self.root).ok("PUT", f"/v1/pools/{pool_id}/offers/{tenant}", body)

    def project(self, name: str = "research", by: Client | None = None) -> str:
        return str((by or self.acme).ok("POST", "/v1/projects", {"name": name})["id"])

    def flavor(self, name: str | None = None, by: Client | None = None, **fields: Any) -> str:
        """A flavor of the platform's, which every tenant sees."""
        body = {"name": name or f"f{next(_numbers)}", "vcpu": 2, "memoryGiB": 4, "diskGiB": 10} | fields
        return str((by or self.root).ok("POST", "/v1/flavors", body)["id"])

    def instance(self, pool_id: str, by: Client | None = None, key: str | None = None, **fields: Any) -> Any:
        """An instance as it was shown at first: acme's, small, of a public image, if nothing else is said."""
        flavor_id = fields.pop("flavorId", None) or self.flavor()
        image_id = fields.pop("imageId", None) or self.image()
        answer = (by or self.acme).launch(pool_id, flavor_id, image_id, key, **fields)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def image(self, by: Client | None = None, content: bytes | None = None, signed: bool = True, **fields: Any) -> str:
        """An image with bytes that a signer vouches for: the platform's public one, or of `by` a private one."""
        content = content or f"image {next(_numbers)}".encode().ljust(512)
        image_id = self.registered(by, content, **fields)
        self.upload(image_id, content, by)
        if signed:
            self.sign(image_id, by)
        return image_id

    def registered(self, by: Client | None = None, content: bytes = BYTES, **fields: Any) -> str:
        """An image without bytes and signatures."""
        body = {
            "name": "tiny",
            "imageVersion": str(next(_numbers)),
            "format": "raw",
            "sha256": hashlib.sha256(content).hexdigest(),
            "sizeBytes": len(content),
            "visibility": "private" if by else "public",
        } | fields
        return str((by or self.root).ok("POST", "/v1/images", body)["id"])

    def upload(self, image_id: str, content: bytes, by: Client | None = None) -> Any:
        """The bytes of an image come."""
        path = f"/v1/images/{image_id}/content"
        answer = (by or self.root).raw("PUT", path, content, content_type="application/octet-stream")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sign(self, image_id: str, by: Client | None = None) -> Any:
        """The plane's signer vouches for an image."""
        by = by or self.root
        self.allow()
        return by.ok("POST", f"/v1/images/{image_id}/signatures", {"signature": self.signature(image_id, by)})

    def signature(self, image_id: str, by: Client) -> str:
        """What the plane's signer says of an image, in base64."""
        statement = by.ok("GET", f"/v1/images/{image_id}")["statement"].encode()
        return base64.b64encode(self.signer.sign(statement)).decode()

    @property
    def public_key(self) -> str:
        """Of the plane's signer, in PEM."""
        return self.signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def allow(self) -> None:
        """Put the plane's signer on the allowlist, beside those who are there."""
        there = self.root.ok("GET", "/v1/image-signers")["signers"]
        keys = {signer["publicKey"]: signer["name"] for signer in there} | {self.public_key: "signer"}
        signers = [{"name": name, "publicKey": key} for key, name in keys.items()]
        self.root.ok("PUT", "/v1/image-signers", {"signers": signers})

    def join(self, site_id: str, name: str, found: dict[str, Any], by: Client | None = None, **token: Any) -> str:
        made = (by or self.root).ok("POST", "/v1/join-tokens", {"siteId": site_id, "trust": "platform"} | token)
        key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        body = {"name": name, "inventory": found, "publicKey": base64.b64encode(key).decode()}
        headers = {"authorization": f"Bearer {made['token']}"}
        answer = self.app.post("/v1/nodes/join", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def node(
        self,
        site_id: str,
        pool_id: str,
        name: str = "n1",
        gpus: int = 8,
        model: str = "H100",
        found: dict[str, Any] | None = None,
        by: Client | None = None,
        **token: Any,
    ) -> str:
        """A node that is adopted, connected and schedulable in the pool."""
        found = inventory(model, gpus, next(_numbers)) if found is None else found
        node_id = self.join(site_id, name, found, by, **token)
        (by or self.root).ok("POST", f"/v1/nodes/{node_id}/assign", {"poolId": pool_id})
        (by or self.root).ok("POST", f"/v1/nodes/{node_id}/adopt", {})
        self.connect(node_id)
        self.settle()
        return node_id

    def connect(self, node_id: str) -> int:
        session = agents.open_session(self.store, node_id)
        self.report(node_id, session)
        return session

    def report(self, node_id: str, session: int | None = None) -> None:
        """The node's agent has done all that its NodeSpec says, and says so."""
        state = self.store.load(node_id).state
        items: dict[str, node_spec.Status] = {a.id: "prepared" for a in state.allocations}
        instances = {one.id: node_spec.InstanceStatus(one.desired) for one in state.instances}
        agents.report_status(
            self.store, node_id, state.session if session is None else session, state.generation, items, instances
        )

    def hosts(self, nodes: int = 1, gpus: int = 8, quota: int = 8) -> tuple[str, list[str]]:
        """A pool for instances that is offered to acme, and its nodes."""
        site_id = self.site("vps")
        pool_id = self.pool(site_id, "vps", **{"class": "vps-host"})
        self.offer(pool_id, quota={"gpu": quota, "vcpu": 1000, "memoryMiB": 1_000_000})
        return pool_id, [self.node(site_id, pool_id, f"v{n}", gpus) for n in range(nodes)]

    def fleet(self, nodes: int = 1, gpus: int = 8, quota: int = 8) -> tuple[str, list[str]]:
        """A pool of H100s offered to acme, and its nodes."""
        site_id = self.site()
        pool_id = self.pool(site_id)
        self.offer(pool_id, gpu=quota)
        return pool_id, [self.node(site_id, pool_id, f"n{n}", gpus) for n in range(nodes)]


@contextmanager
def plane(dsn: str, home: Path, history_days: int | None = None) -> Iterator[Plane]:
    text, tokens = demo.demo_access()
    access = home / "access.toml"
    access.write_text(text)
    unlimited = Limits(mutations=1e6, reads=1e6, anonymous=1e6)
    with (
        main.running(dsn, access, history_days, resolver=resolver_key.knows(RESOLVER)) as wired,
        TestClient(wired.app(unlimited)) as app,
    ):  # type: ignore[arg-type]
        yield Plane(wired, app, tokens, access)
