"""What Better IAM is configured from: one table, in names and sizes that it takes (iam.md §7; domain.md §10)."""

import re
from typing import Any

import msgspec
import pytest

from adapters.reference import pages
from adapters.registry import OPERATIONS
from domain import policy, roles
from given import Plane
from queries import iam

CATALOG: dict[str, Any] = msgspec.to_builtins(iam.of(OPERATIONS.values()))
TYPES: dict[str, dict[str, Any]] = CATALOG["permissions"]["resourceTypes"]
RESERVED = {"iam", "role", "oauth-client", "scim", "saml", "ssf", "tenant", "identity", "session"}
LABELS = {"classification", "classificationRank", "compartments", "noforn", "releasableTo"}


def test_whoever_may_read_is_shown_it_with_a_tag_of_its_content(plane: Plane) -> None:
    answer = plane.acme_user.get("/v1/iam/catalog")
    assert (answer.status_code, answer.json()) == (200, msgspec.json.decode(msgspec.json.encode(CATALOG)))
    tag = answer.headers["etag"]
    assert plane.root.get("/v1/iam/catalog").headers["etag"] == tag
    assert plane.acme.get("/v1/iam/catalog", if_none_match=tag).status_code == 304


def test_a_host_takes_every_type_as_it_is_declared() -> None:
    allowed = {"description", "actions", "attributes", "parent", "managed", "relations"}
    assert len(TYPES) == 11
    for name, declared in TYPES.items():
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,63}", name)
        assert name not in RESERVED
        assert set(declared) <= allowed
        assert declared["managed"] is False
        assert 0 < len(declared["description"].encode("utf-16-le")) // 2 <= 512
        assert len(declared["attributes"]) <= 64
        assert len(declared["relations"]) <= 32
        assert all(re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", relation) for relation in declared["relations"])
        for attribute, kind in declared["attributes"].items():
            assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", attribute)
            assert attribute not in {"tenantId", *LABELS}
            assert kind in {"string", "number", "boolean"}


def test_parents_are_declared_and_lead_to_an_end() -> None:
    for name in TYPES:
        line = [name]
        while (parent := TYPES[line[-1]].get("parent")) is not None:
            assert parent in TYPES
            assert parent not in line
            line.append(parent)


def test_a_host_takes_every_action_and_each_stands_with_what_it_is_decided_on() -> None:
    for action in CATALOG["actions"]:
        assert re.fullmatch(r"[^\s*?]{1,256}", action)
        assert not action.startswith(("iam:", "tenant/"))
        assert any(action in declared["actions"] for declared in TYPES.values())
    assert list(CATALOG["actions"]) == sorted({one.action for one in OPERATIONS.values() if one.on})
    assert {action for declared in TYPES.values() for action in declared["actions"]} == set(CATALOG["actions"])


@pytest.mark.parametrize(
    ("action", "types"),
    [
        ("compute:nodes:assign", "node pool"),
        ("compute:sites:create", "fleet tenant"),
        ("compute:quotas:set", "fleet tenant"),
        ("compute:reservations:list", "fleet tenant"),
        ("compute:reservations:create", "reservation"),
        ("compute:reservations:preview", "pool"),
        ("compute:pools:evict", "pool"),
        ("compute:leases:list", "fleet"),
        ("compute:projects:archive", "project"),
    ],
)
def test_where_several_types_are_decided_on_all_are_named(action: str, types: str) -> None:
    found = {name for name, declared in TYPES.items() if action in declared["actions"]}
    assert found == {f"compute-{name}" for name in types.split()}


def test_what_no_iam_decides_is_no_action() -> None:
    undecided = {name for name, one in OPERATIONS.items() if not one.on}
    assert undecided == {"nodes.join", "iam.resolve"}
    assert not {OPERATIONS[name].action for name in undecided} & set(CATALOG["actions"])


def test_the_default_roles_are_policies_that_a_host_stores() -> None:
    """Exact actions and types must be known to it; patterns are stored as written (iam.md §7)."""
    assert [role["name"] for role in CATALOG["roles"]] == [role.name for role in roles.DEFAULTS]
    for role in CATALOG["roles"]:
        policy.validate(role["document"])
        for statement in role["document"]["statements"]:
            assert all(resource.partition("/")[0] in {*TYPES, "compute-*"} for resource in statement["resources"])
            for keys in statement.get("conditions", {}).values():
                for key in keys:
                    types = [resource.partition("/")[0] for resource in statement["resources"]]
                    assert all(key.removeprefix("resource.") in TYPES[name]["attributes"] for name in types), key


def test_the_reference_says_the_same() -> None:
    page = pages()["iam.md"]
    for action in CATALOG["actions"]:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{action}` ")]
        named = {name.partition("/")[0] for name in re.findall(r"`(compute-[^`]+)`", line)}
        assert named == {name for name, declared in TYPES.items() if action in declared["actions"]}
