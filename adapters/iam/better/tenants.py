"""The tenant tree, read from Better IAM with service keys, and read again when something happened (iam.md §15).

A key acts in its own tenant alone, and there is no call for all descendants: what lies below a tenant is known
where a key of that tenant is at hand.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from threading import Event, Lock, Thread
from typing import Final

import psycopg
from msgspec import Struct

from adapters.iam.better.answers import Failed
from adapters.iam.better.client import Client
from adapters.iam.better.identity import CallerIdentity, Id
from commands.ports import Race
from domain import errors
from domain.access import Tenant, TenantStatus

log = logging.getLogger(__name__)

EVERY_S: Final = 300.0
"""Without any event: deliveries can be lost for good (iam.md §18)."""

AFTER_TROUBLE_S: Final = 10.0
REST_S: Final = 1.0
"""Between two readings, however many events ask for one."""

MOST: Final = 100_000
"""Tenants of a tree; a server that names more is not believed."""


class WrongTree(Exception):
    """The tree that was read cannot be one, or is another platform's."""


_TROUBLE: Final = (errors.Refusal, Failed, WrongTree, Race, OSError, UnicodeDecodeError, psycopg.OperationalError)

Record = Callable[[Collection[Tenant], Collection[str]], None]


class _Tenant(Struct, frozen=True, rename="camel"):
    id: Id
    type: Id
    parent_id: Id | None
    status: TenantStatus


class TenantTree:
    """`record` takes the tenants, and those whose children could not be read; a thread of its own calls it."""

    def __init__(self, client: Client, root: str, keys: Callable[[], Sequence[str]], record: Record) -> None:
        self._client = client
        self._root = root
        self._keys = keys
        self._record = record
        self.trouble: str | None = "not read yet"
        """Why the tree that is known is not of now; it names nothing secret."""
        self._unread: frozenset[str] = frozenset()
        self._wanted = Event()
        self._stopping = Event()
        self._reading = Lock()
        self._thread = Thread(target=self._run, name="tenant-tree", daemon=True)

    def changed(self) -> None:
        """Something happened to a tenant: read soon."""
        self._wanted.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def sync(self) -> None:
        """Read it now, and record what differs."""
        with self._reading:
            tenants, unread = self._read()
            self._record(tenants, unread)
            if unread != self._unread:
                log.info("no service key of these tenants, their children are as the log has them: %s", _few(unread))
            self._unread = unread

    def _run(self) -> None:
        every = 0.0
        while not self._stopping.is_set():
            self._wanted.wait(every)
            if self._stopping.wait(REST_S if every else 0):
                return
            self._wanted.clear()
            every = EVERY_S if self._guarded() else AFTER_TROUBLE_S

    def _guarded(self) -> bool:
        try:
            self.sync()
        except _TROUBLE as fault:
            log.warning("the tenant tree could not be read, it stays as it is: %s", fault)
            self.trouble = "could not be read; an earlier one is in force"
        except Exception:
            log.exception("reading the tenant tree failed; it is tried again")
            self.trouble = "could not be read; an earlier one is in force"
        else:
            self.trouble = None
        return self.trouble is None

    def _read(self) -> tuple[tuple[Tenant, ...], frozenset[str]]:
        keys = by_tenant(self._client, self._keys())
        if self._root not in keys:
            raise WrongTree(f"none of the service keys is one of the root tenant {self._root}")
        body = {"tenantId": self._root}
        root = self._client.call("tenants/get", body, _Tenant, keys[self._root])
        if root.id != self._root or root.parent_id is not None:
            raise WrongTree(f"{self._root} is not the root tenant there: it has a parent")
        tree, unread, todo = {root.id: root}, set[str](), [root]
        while todo:
            parent = todo.pop()
            for child in self._children(parent, keys, unread):
                if child.id in tree or child.parent_id != parent.id or len(tree) >= MOST:
                    raise WrongTree(f"the children of {parent.id} are no children of a tree")
                tree[child.id] = child
                todo.append(child)
        return tuple(Tenant(one.id, one.parent_id, one.status, one.type) for one in tree.values()), frozenset(unread)

    def _children(self, parent: _Tenant, keys: dict[str, str], unread: set[str]) -> list[_Tenant]:
        if parent.id in keys:
            try:
                return self._client.call(
                    "tenants/listChildren", {"tenantId": parent.id}, list[_Tenant], keys[parent.id]
                )
            except Failed as no:
                if parent.id == self._root:
                    raise
                log.warning("tenants/listChildren of %s: %s", parent.id, no)
        unread.add(parent.id)
        return []


def by_tenant(client: Client, keys: Sequence[str]) -> dict[str, str]:
    """Each key is asked whose it is; one that is no longer good is passed over, and named by its place."""
    found: dict[str, str] = {}
    for place, key in enumerate(keys, 1):
        try:
            caller = client.call("sts/getCallerIdentity", {}, CallerIdentity, key)
        except (errors.Unauthenticated, Failed) as no:
            log.error("service key %d is not taken: %s", place, no)
            continue
        found[caller.tenant_id] = key
    return found


def _few(names: Collection[str]) -> str:
    shown = sorted(names)[:10]
    return ", ".join(shown) + (", …" if len(names) > len(shown) else "")
