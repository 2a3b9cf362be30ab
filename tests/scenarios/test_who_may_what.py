"""The matrix of who_may_what.txt, cell by cell: what is foreign is 404, what is refused 403, nothing is forgotten."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from adapters.iam import tokens
from adapters.ids import Mint
from adapters.registry import OPERATIONS
from domain import ids
from given import Client, Plane
from wellformed import HOSTING, REQUESTS, Party, belongings, claims, fill, fresh, hosting, launched, projects

FILE: Final = Path(__file__).with_name("who_may_what.txt")
COLUMNS: Final = {"nobody": "nx", "own": "POAauid", "offered": "auid", "foreign": "POAauidw", "missing": "POAauid"}
"""The callers of each column, in its order."""
CODES: Final = {401: "UNAUTHENTICATED", 403: "ACCESS_DENIED", 404: "NOT_FOUND", 409: "CONFLICT"}
POOLS: Final = ("pool", "spare_pool", "other_pool", "hosts")
"""The things that an offer shows to another tenant."""
NO_THING: Final = frozenset({"kind", "customer", "public_key"})
FOREIGN: Final = {
    "foreign pool": "pool",
    "foreign claim": "evicted",
    "foreign twin": "spare_node",
    "other kind": "kind",
}
"""What alone is foreign, by the variant of a row that says so."""

ACCESS = """
[tenants.initech]
parent = "platform"

[identities.acme-auditor]
tenant = "acme"
roles = ["tenant-auditor"]
token_sha256 = ["{auditor}"]

[identities.robot]
tenant = "acme"
kind = "agent"

[delegations.errand]
person = "acme-user"
agent = "robot"
scope = ["errand"]
token_sha256 = ["{robot}"]

[boundaries.errand]
version = 1
[[boundaries.errand.statements]]
effect = "allow"
actions = ["compute:reservations:*", "compute:*:list", "compute:*:get", "compute:nodes:cordon", "compute:audit:*"]
resources = ["*"]
"""


class Row(NamedTuple):
    """One line of the table; `variant` is what its name has in brackets."""

    operation: str
    variant: str
    cells: dict[str, str]

    def statuses(self, column: str) -> dict[str, int]:
        """By caller; empty where there is nothing of the kind."""
        found, callers = self.cells[column].split(), COLUMNS[column]
        if found == ["-"]:
            return {}
        return dict(zip(callers, map(int, found * len(callers) if len(found) == 1 else found), strict=True))

    @property
    def names(self) -> set[str]:
        """The things that the request names."""
        path, body = REQUESTS[self.operation]
        return set(re.findall(r"\{(\w+)\}", path + json.dumps(body, default=repr))) - NO_THING

    @property
    def lists(self) -> bool:
        """Whether it names no thing and can be asked of every tenant's."""
        return not self.names and "scope" in OPERATIONS[self.operation].request.__struct_fields__


def _rows() -> Iterator[Row]:
    for line in FILE.read_text().splitlines():
        if not line.startswith("#"):
            name, *cells = (part.strip() for part in line.split("|"))
            operation, _, variant = name.removesuffix("]").partition(" [")
            yield Row(operation, variant, dict(zip(COLUMNS, cells, strict=True)))


ROWS: Final = tuple(_rows())


class Matrix:
    """The callers, and the things of each column as its callers name them."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        made = {name: tokens.mint() for name in ("auditor", "robot")}
        digests = {name: tokens.digest(token) for name, token in made.items()}
        plane.access.write_text(plane.access.read_text() + ACCESS.format(**digests))
        assert plane.wired.authorizer.reload()
        self._clients = {
            "n": Client(plane.app, ""),
            "x": plane.nobody,
            "P": plane.root,
            "O": plane.operator,
            "A": plane.auditor,
            "a": plane.acme,
            "u": plane.acme_user,
            "i": Client(plane.app, made["auditor"]),
            "d": Client(plane.app, made["robot"]),
            "w": plane.globex,
        }
        root, admin = Party(plane.root, "platform", "root"), Party(plane.acme, "acme", "acme")
        user = Party(plane.acme_user, "acme", "acme-user")
        platforms = belongings(plane, root, "initech")
        self._platforms = platforms | self._has(root, platforms) | projects(plane, root)
        acmes = belongings(plane, admin, "initech") | projects(plane, admin)
        self._colleagues = self._has(admin, acmes)
        self._acmes = acmes | self._has(user, acmes)
        self._offered = self._pools(platforms["site"])
        self._rented = self._has(user, self._offered)
        self._missing = {name: _missing(name, id_) for name, id_ in self._platforms.items()}

    def ask(self, row: Row, column: str, caller: str) -> Any:
        path, body = REQUESTS[row.operation]
        if row.variant == "project":
            path = path.replace("/tenant/{tenant}", "/project/{project}")
        if row.variant == "fleet" or (column == "foreign" and row.lists):
            path += "?scope=fleet"
        operation, known = OPERATIONS[row.operation], self.things(row, column, caller)
        sent = None if operation.in_url else fill(body, known)
        return self._clients[caller].call(operation.verb, fill(path, known), sent, Idempotency_Key=fresh())

    def things(self, row: Row, column: str, caller: str) -> Mapping[str, str]:
        theirs = caller in "POA"
        own = self._platforms if theirs else self._acmes
        foreign = self._acmes | self._rented if theirs or caller == "w" else self._platforms
        match column:
            case "offered":
                return own | self._offered
            case "foreign":
                return foreign
            case "missing":
                return self._missing
        if alone := FOREIGN.get(row.variant):
            return own | {alone: foreign[alone]}
        return own | self._colleagues if row.variant == "colleague's" and not theirs else own

    def _pools(self, site_id: str) -> dict[str, str]:
        """Pools of the platform's that acme sees, and a machine."""
        plane = self._plane
        pools = {name: plane.pool(site_id, f"offered-{n}") for n, name in enumerate(POOLS) if name != "hosts"}
        pools["hosts"] = hosting(plane, site_id, plane.root, "offered-hosts")
        for pool_id in pools.values():
            plane.offer(pool_id, quota=HOSTING)
        plane.node(site_id, pools["pool"], "offered")
        plane.node(site_id, pools["hosts"], "offered-host")
        return pools

    def _has(self, by: Party, pools: Mapping[str, str]) -> dict[str, str]:
        """What somebody holds and runs in these pools."""
        return claims(self._plane, by, pools["pool"]) | launched(self._plane, by, pools["hosts"])


def _missing(name: str, like: str) -> str:
    """An id of the same kind that nothing has."""
    prefix, mark, _ = like.partition("_")
    if not mark:
        return {"tenant": "nowhere"}.get(name, like)
    return ids.derive(prefix, "acme", "acme", fresh()) if prefix in ids.DERIVED else Mint()(prefix)


def test_every_operation_has_its_row() -> None:
    names = {row.operation for row in ROWS}
    for table, rows in ((str(FILE), names), ("REQUESTS in tests/wellformed.py", set(REQUESTS))):
        assert sorted(set(OPERATIONS) - rows) == [], f"{table} lacks a row for these operations"
        assert sorted(rows - set(OPERATIONS)) == [], f"{table} has a row for what is no operation"
    assert len({row[:2] for row in ROWS}) == len(ROWS), "a row is there twice"


@pytest.mark.parametrize("row", [row for row in ROWS if not row.variant], ids=lambda row: row.operation)
def test_a_row_leaves_out_only_what_there_is_not(row: Row) -> None:
    there = {
        "nobody": True,
        "own": True,
        "offered": bool(row.names & set(POOLS)),
        "foreign": bool(row.names) or row.lists,
        "missing": bool(row.names),
    }
    assert {column: bool(row.statuses(column)) for column in COLUMNS} == there


def test_every_caller_gets_the_answer_of_its_cell(plane: Plane) -> None:
    matrix = Matrix(plane)
    wrong, shown = [], []
    for row in ROWS:
        name = f"{row.operation} [{row.variant}]"
        for column in COLUMNS:
            for caller, status in row.statuses(column).items():
                answer = matrix.ask(row, column, caller)
                found = answer.status_code
                if found != status or (status >= 400 and answer.json()["code"] != CODES[status]):
                    wrong.append((name, column, caller, status, found, answer.text[:300]))
                if found == 404:
                    shown.append((name, caller, column, _without_ids(answer.json())))
    assert wrong == []
    missing = {(name, caller): said for name, caller, column, said in shown if column == "missing"}
    told = [
        (name, caller, said, missing[name, caller])
        for name, caller, column, said in shown
        if column == "foreign" and said != missing.get((name, caller), said)
    ]
    assert told == [], "what is foreign is told from what is missing"


def _without_ids(problem: dict[str, Any]) -> str:
    """What a problem says, apart from whom and what it was about."""
    said = {name: value for name, value in problem.items() if name not in ("requestId", "instance")}
    return re.sub(r"\b[a-z]+_[0-9a-z]{26,}\b|\b(platform|acme|nowhere)\b", "…", json.dumps(said))
