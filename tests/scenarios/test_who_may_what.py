"""Every operation for every kind of caller: foreign things are 404, refused ones 403, and nothing is forgotten."""

from adapters.registry import OPERATIONS
from given import Client, Plane
from wellformed import REQUESTS, fill, fresh, things

CALLERS = ("none", "wrong", "foreign", "user", "auditor", "offered", "operator", "owner")
"""No token; an unknown one; the administrator of a tenant that sees none of it; a plain user and the administrator of
the tenant that the pool is offered to and the reservation belongs to; the platform's auditor, operator and
administrator."""

READ = "401 401 200 200 200 200 200 200"
THEIRS = "401 401 404 404 200 404 200 200"  # read what only the owner's tenant sees
RUN = "401 401 404 404 403 404 200 200"  # run a machine or a site
OWN = "401 401 404 403 403 403 200 200"  # run a pool that others see
GIVE = "401 401 404 403 403 403 403 200"  # the administrator's alone

EXPECTED: dict[str, str] = {
    "sites.create": "401 401 403 403 403 403 201 201",
    "sites.list": READ,
    "sites.get": THEIRS,
    "sites.update": RUN,
    "pools.create": "401 401 404 403 403 404 201 201",
    "pools.list": READ,
    "pools.get": "401 401 404 200 200 200 200 200",
    "pools.update": OWN,
    "pools.retire": OWN,
    "pools.offer": GIVE,
    "pools.offers": "401 401 404 200 200 200 200 200",
    "pools.withdraw": GIVE,
    "pools.evict": OWN,
    "projects.create": "401 401 201 403 403 201 403 201",
    "projects.list": READ,
    "projects.get": "401 401 404 200 404 200 404 404",
    "projects.archive": "401 401 404 403 404 200 404 404",
    "quotas.set": "401 401 403 403 403 403 403 200",
    "quotas.get": "401 401 404 200 200 200 200 200",
    "budgets.set": "401 401 403 403 403 403 403 200",
    "budgets.get": "401 401 404 200 200 200 200 200",
    "joinTokens.create": "401 401 404 403 403 404 403 201",
    "joinTokens.list": READ,
    "joinTokens.revoke": "401 401 404 403 403 404 403 200",
    "nodes.join": "401 401 401 401 401 401 401 401",
    "nodes.assign": RUN,
    "nodes.adopt": RUN,
    "nodes.cordon": RUN,
    "nodes.uncordon": RUN,
    "nodes.maintain": RUN,
    "nodes.drain": RUN,
    "nodes.inspect": RUN,
    "nodes.commission": RUN,
    "nodes.deploy": RUN,
    "nodes.release": RUN,
    "nodes.rescue": RUN,
    "nodes.label": RUN,
    "nodes.fence": RUN,
    "nodes.settle": RUN,
    "nodes.retire": RUN,
    "nodes.list": READ,
    "nodes.get": THEIRS,
    "nodes.inventory": THEIRS,
    "nodes.history": THEIRS,
    "nodes.spec": THEIRS,
    "nodes.devices": THEIRS,
    "commands.issue": "401 401 404 404 403 404 201 201",
    "commands.cancel": RUN,
    "commands.list": READ,
    "commands.get": THEIRS,
    "commands.types": READ,
    "devices.list": READ,
    "capacity.list": READ,
    "capacity.timeline": "401 401 404 200 200 200 200 200",
    "reservations.create": "401 401 404 201 403 201 403 201",
    "reservations.preview": "401 401 404 200 200 200 200 200",
    "reservations.list": READ,
    "reservations.get": "401 401 404 403 404 200 404 404",
    "reservations.cancel": "401 401 404 403 404 200 404 404",
    "reservations.release": "401 401 404 403 404 200 404 404",
    "reservations.renew": "401 401 404 403 404 200 404 404",
    "reservations.confirm": "401 401 404 403 404 200 404 404",
    "reservations.extend": "401 401 404 403 404 200 404 404",
    "extensions.list": READ,
    "extensions.get": "401 401 404 403 404 200 404 404",
    "allocations.list": READ,
    "bookings.list": READ,
    "usage.list": READ,
    "leases.list": "401 401 403 403 200 403 200 200",
    "leases.proceed": "401 401 403 403 403 403 200 200",
    "events.stream": READ,
    "audit.stream": "401 401 404 403 200 404 403 200",
    "audit.state": "401 401 404 403 200 404 403 200",
    "audit.events": "401 401 200 403 200 200 403 200",
}
CODES = {401: "UNAUTHENTICATED", 403: "ACCESS_DENIED", 404: "NOT_FOUND"}


def test_every_operation_has_its_row() -> None:
    for table, rows in (("EXPECTED here", EXPECTED), ("REQUESTS in tests/wellformed.py", REQUESTS)):
        assert sorted(set(OPERATIONS) - set(rows)) == [], f"{table} lacks a row for these operations"
        assert sorted(set(rows) - set(OPERATIONS)) == [], f"{table} has a row for what is no operation"


def test_every_caller_gets_the_answer_of_its_cell(plane: Plane) -> None:
    known = things(plane)
    clients = {
        "wrong": plane.nobody,
        "foreign": plane.globex,
        "user": plane.acme_user,
        "auditor": plane.auditor,
        "offered": plane.acme,
        "operator": plane.operator,
        "owner": plane.root,
    }
    wrong = []
    for name, expected in EXPECTED.items():
        path, body = REQUESTS[name]
        operation = OPERATIONS[name]
        for caller, status in zip(CALLERS, map(int, expected.split()), strict=True):
            client = clients.get(caller, Client(plane.app, ""))
            sent = None if operation.in_url else fill(body, known)
            answer = client.call(operation.verb, fill(path, known), sent, Idempotency_Key=fresh())
            right = answer.status_code == status and (status < 400 or answer.json()["code"] == CODES[status])
            if not right:
                wrong.append((name, caller, status, answer.status_code, answer.text[:200]))
    assert wrong == []
