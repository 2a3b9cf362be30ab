"""Decisions out of an access file, in the order in which Better IAM's server takes them (iam.md §6)."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from adapters.iam import access_file, tokens
from adapters.iam.directory import Directory, Principal
from domain import access, catalog, policy
from domain.access import Check, Decision, Foresight, Plan, Resource, Session
from domain.policy import algebra, filters, planning

log = logging.getLogger(__name__)

MAX_TOKEN = 4096
"""Characters of a bearer token; a longer one is nobody's."""

PLANS_KEPT = 10_000

RELOAD_SECONDS = 1.0
_SETTLED_NS = 2_000_000_000
"""A file written this recently may change again without a change of its time and size."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Embedded:
    """The embedded Authorizer: a file on disk, read again by `refresh`; a broken file changes nothing.

    `actions` are all actions there are: others are refused, in the file by name and in decisions. `clock`
    gives epoch milliseconds for `request.time`. `on_load` hears of every file just before it comes into
    force, the first included, so that the log knows its digest before a decision bears it; a load that it
    fails is not in force and is tried again.
    """

    needs_committed_draft = False

    def __init__(
        self,
        path: Path,
        *,
        actions: Collection[str] | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
        on_load: Callable[[access_file.AccessFile], None] = lambda file: None,
    ) -> None:
        self._path = path
        self._actions = actions
        self._clock = clock
        self._monotonic = monotonic
        self._on_load = on_load
        self._lock = Lock()
        self._checked = monotonic()
        self._signature = self._stat()
        data = path.read_bytes()
        self._seen = sha256(data).digest()
        self._directory = Directory(access_file.parse(data, actions))
        self.stale: str | None = None
        """Why the file on disk is not the one in force, for everybody to see: it names nothing of the file."""
        on_load(self._directory.file)

    @property
    def digest(self) -> str:
        """SHA-256 hex of the file in force."""
        return self._directory.file.digest

    def identify(self, token: str) -> Session | None:
        """Looks the token's hash up, so that the time taken tells nothing of any token but the caller's."""
        if not 0 < len(token) <= MAX_TOKEN:
            return None
        principal = self._directory.by_token.get(tokens.digest(token))
        return None if principal is None else principal.session

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        directory = self._directory
        refusal, principal = self._refusal(directory, session, action, resource)
        if principal is None:
            return Decision(False, refusal, directory.file.digest)
        decision = policy.evaluate(
            action,
            f"{resource.type}/{resource.id}",
            principal.grants,
            principal.boundaries,
            self._context(directory, principal, resource) if principal.reads else {},
        )
        return Decision(decision.allowed, decision.reason, directory.file.digest)

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        """The policies are here and deciding leaves no trace, so that no plan comes between (decisions/0019)."""
        decision = self.authorize(session, action, resource)
        if decision.reason == "evaluation-limit":
            return Foresight("unknown", decision.reason)
        return Foresight("allowed" if decision.allowed else "denied", decision.reason)

    def plan(self, session: Session, action: str, type: str) -> Plan:
        """Worked out once for as long as the file stays, where no policy looks at the clock."""
        directory = self._directory
        _, principal = _principal(directory, session)
        if principal is None or not self._knows(action):
            return Plan("never")
        if "request.time" in principal.reads:
            return _planned(directory, principal, action, type, {"request.time": iso(self._clock())})
        key = (session.session_id, action, type)
        plan = directory.plans.get(key)
        if plan is None:
            if len(directory.plans) >= PLANS_KEPT:
                directory.plans.clear()
            plan = directory.plans[key] = _planned(directory, principal, action, type, {})
        return plan

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        return [self.authorize(session, action, resource).allowed for action, resource in checks]

    def reload(self) -> bool:
        """Reads the file now; whether another one came into force. A broken one is logged once and left."""
        with self._lock:
            return self._reload()

    def refresh(self) -> None:
        """Take a changed file into force; looks at most once a second, however often it is called.

        It reads the disk and calls `on_load`, so it is no call for an event loop.
        """
        if self._monotonic() - self._checked < RELOAD_SECONDS or not self._lock.acquire(blocking=False):
            return
        try:
            self._checked = self._monotonic()
            signature = self._stat()
            settled = signature is not None and time.time_ns() - signature[0] > _SETTLED_NS
            if signature != self._signature or not settled or not self._seen:
                self._reload()
                self._signature = signature
        finally:
            self._lock.release()

    def _refusal(
        self, directory: Directory, session: Session, action: str, resource: Resource
    ) -> tuple[str, Principal | None]:
        """What stands in the way before any policy is asked (iam.md §6, steps 1 to 6)."""
        refusal, principal = _principal(directory, session)
        if principal is None:
            return refusal, None
        if resource.tenant_id != session.tenant_id:
            return "TENANT_MISMATCH", None
        if not self._knows(action):
            return "UNKNOWN_ACTION", None
        if not catalog.resolves(
            resource.type, resource.id, session.tenant_id, root_tenant=principal.session.root_tenant
        ):
            return "RESOURCE_MISMATCH", None
        return "", principal

    def _knows(self, action: str) -> bool:
        return self._actions is None or action in self._actions

    def _context(self, directory: Directory, principal: Principal, resource: Resource) -> dict[str, Any]:
        """Attributes first, so that they cannot pass for what only the server says (iam.md §8, rule 3)."""
        context: dict[str, Any] = {f"resource.{name}": value for name, value in resource.attributes.items()}
        parent: list[str] = []
        if resource.parent_type is not None and resource.parent_id is not None:
            context["resource.parentType"] = resource.parent_type
            context["resource.parentId"] = resource.parent_id
            parent = directory.relations(principal, resource.tenant_id, resource.parent_type, resource.parent_id)
        context["resource.tenantId"] = resource.tenant_id
        context["resource.relations"] = directory.relations(principal, resource.tenant_id, resource.type, resource.id)
        context["resource.parentRelations"] = parent
        if "request.time" in principal.reads:
            context["request.time"] = iso(self._clock())
        context.update(principal.context)
        return context

    def _reload(self) -> bool:
        try:
            data = self._path.read_bytes()
            seen = sha256(data).digest()
        except OSError as error:
            if self._seen:
                log.error("access file %s cannot be read, the last one stays in force: %s", self._path, error)
            self._seen = b""
            self.stale = "cannot be read"
            return False
        if seen == self._seen:
            return False
        self._seen = seen
        self.stale = "is wrong"
        try:
            directory = Directory(access_file.parse(data, self._actions))
        except access_file.AccessFileError as error:
            log.error("access file %s is wrong, the last one stays in force: %s", self._path, error)
            return False
        self.stale = None
        if directory.file.digest == self.digest:
            return False
        try:
            self._on_load(directory.file)
        except Exception:
            self._seen = b""
            self.stale = "could not be recorded"
            log.exception("access file %s could not be recorded, the last one stays in force", self._path)
            return False
        self._directory = directory
        log.info("access file %s is in force, SHA-256 %s", self._path, self.digest)
        return True

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _principal(directory: Directory, session: Session) -> tuple[str, Principal | None]:
    """The session's principal, or why it may nothing at all."""
    principal = directory.principal(session)
    if principal is None:
        return "UNAUTHENTICATED", None
    if not directory.usable(session.tenant_id):
        return "TENANT_INACTIVE", None
    return "", principal


def _planned(directory: Directory, principal: Principal, action: str, type: str, request: dict[str, Any]) -> Plan:
    tenant_id = principal.session.tenant_id
    within = catalog.within(type, tenant_id, root_tenant=principal.session.root_tenant)
    if within is not None and not within:
        return Plan("never")
    context = {**request, **principal.context, "resource.tenantId": tenant_id}
    related = directory.related(principal, tenant_id)
    known = planning.Known(context, related.get(type, {}), related)
    try:
        planned = planning.plan(action, type, principal.grants, principal.boundaries, known)
    except planning.Unsupported:
        return Plan("unsupported")
    return access.plan_of(planned if within is None else algebra.all_of([filters.Equals("id", within), planned]))


def iso(moment: int) -> str:
    """Epoch milliseconds in the form that policies compare: ISO 8601, milliseconds, `Z` (iam.md §9)."""
    return (_EPOCH + timedelta(milliseconds=moment)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment % 1000:03d}Z"
