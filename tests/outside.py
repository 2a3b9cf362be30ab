"""A decider outside, as Better IAM is one: it reads what it decides on back from the server, or knows nothing of it."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from msgspec.structs import replace

from commands.gatekeeper import Gatekeeper
from domain import errors
from domain.access import Check, Decision, Foresight, Plan, Resource, Session
from given import RESOLVER, Client, Plane

Asked = tuple[str, str, dict[str, Any]]


class Outside:
    """Decides as the access file says, on what the resolver tells; a test says for which actions it is away.

    An action in `held` is refused to agents until a test approves it on a thing: that opens one decision (iam.md §14).
    What is in `meanwhile` happens while it decides, once.
    """

    needs_committed_draft = True

    def __init__(self, plane: Plane) -> None:
        self._inner: Any = plane.wired.ports.authorizer
        self._host = Client(plane.app, RESOLVER)
        self._lock = Lock()
        self.asked: list[Asked] = []
        self.away: set[str] = set()
        self.refuses = ""
        self.meanwhile: list[Callable[[], object]] = []
        self.held: set[str] = set()
        self.approved: set[tuple[str, str]] = set()

    def install(self, plane: Plane) -> None:
        wired = plane.wired
        wired.ports = replace(wired.ports, authorizer=self)
        wired.dispatcher.ports = wired.ports
        wired.dispatcher.gatekeeper = Gatekeeper(wired.store, self, wired.ports.new_id)

    def identify(self, token: str) -> Session | None:
        found: Session | None = self._inner.identify(token)
        return found

    def authorize(self, session: Session, action: str, resource: Resource) -> Decision:
        """Never on what it was given, but its type and id: the rest it asks back."""
        if action in self.away:
            raise errors.Unavailable("the decider is away")
        told = self._resolved(session.tenant_id, resource.type, resource.id)
        attributes = dict(told)
        parent = attributes.pop("parentType", None), attributes.pop("parentId", None)
        with self._lock:
            self.asked.append((action, f"{resource.type}/{resource.id}", attributes))
        while self.meanwhile:
            self.meanwhile.pop()()
        if self.refuses:
            return Decision(False, self.refuses, "")
        if not self._released(session, action, resource.id):
            return Decision(False, "ACCESS_DENIED", "")
        of = Resource(resource.type, resource.id, session.tenant_id, attributes, *parent)
        made: Decision = self._inner.authorize(session, action, of)
        return made

    def _resolved(self, tenant_id: str, type_: str, id_: str) -> dict[str, Any]:
        answer = self._host.post("/v1/iam/resolve", {"tenantId": tenant_id, "type": type_, "id": id_})
        if answer.status_code != 200 or answer.json()["tenantId"] != tenant_id:
            raise errors.AccessDenied(f"RESOURCE_MISMATCH: {type_}/{id_}")
        attributes: dict[str, Any] = answer.json()["attributes"]
        return attributes

    def _released(self, session: Session, action: str, id_: str) -> bool:
        if session.session_kind != "delegated" or action not in self.held:
            return True
        with self._lock:
            if (action, id_) not in self.approved:
                return False
            self.approved.remove((action, id_))
            return True

    def of(self, action: str) -> list[Asked]:
        return [asked for asked in self.asked if asked[0] == action]

    def foresee(self, session: Session, action: str, resource: Resource) -> Foresight:
        found: Foresight = self._inner.foresee(session, action, resource)
        return found

    def plan(self, session: Session, action: str, type: str) -> Plan:
        found: Plan = self._inner.plan(session, action, type)
        return found

    def allowed(self, session: Session, checks: Sequence[Check]) -> Sequence[bool]:
        found: Sequence[bool] = self._inner.allowed(session, checks)
        return found


def installed(plane: Plane) -> Outside:
    """One that decides for the plane from now on."""
    made = Outside(plane)
    made.install(plane)
    return made
