"""Projects: a tenant's own grouping, with quota, budget, and what runs in each."""

import secrets
from typing import Any, Final

from adapters.console import seen
from adapters.console.ask import Ask
from adapters.console.page import Page
from adapters.console.pages import quotas

SHOWN: Final = 25


def listed(ask: Ask) -> dict[str, Any]:
    return {
        "list": seen.page(ask, "projects.list", "archived"),
        "hours": _hours(ask),
        "may": ask.offered("projects.create"),
        "key": secrets.token_hex(16),
    }


def _hours(ask: Ask, project_id: str | None = None) -> dict[str, float]:
    """GPU-hours that ran so far, by project."""
    spent: dict[str, float] = {}
    for row in seen.several(ask, "usage.list", groupBy=["project"], projectId=project_id, limit=seen.MOST_NAMES):
        if "projectId" in row:
            spent[row["projectId"]] = spent.get(row["projectId"], 0.0) + row["gpuHours"]
    return spent


def one(ask: Ask) -> dict[str, Any]:
    id = ask.path["id"]
    shown = seen.one(ask, "projects", id)
    mine = shown["ownerTenantId"] == ask.session.tenant_id
    takes = mine and shown["archivedAt"] is None
    return {
        "of": shown,
        **quotas.standing(ask, "project", id, seen=mine),
        "spent": _hours(ask, id).get(id, 0.0),
        "reservations": seen.several(ask, "reservations.list", projectId=id, order="desc", limit=SHOWN),
        "instances": seen.several(ask, "instances.list", projectId=id, order="desc", limit=SHOWN),
        "may": ask.offered("projects.archive", id=id) | _limits(ask) if takes else set(),
        "resources": quotas.RESOURCES,
        "title": f"Project {shown['name']}",
        "live": f"{id} rsv inst quota:{id} budget:{id}",
    }


def _limits(ask: Ask) -> set[str]:
    """A tenant grants to its own projects."""
    return {name for name in ask.offered("quotas.set", "budgets.set") if quotas.grants(ask, name, "tenant")}


PAGES: Final = (
    Page(
        path="/projects",
        name="console.projects",
        template="projects.html",
        build=listed,
        title="Projects",
        nav="Projects",
        needs="projects.list",
        live=("prj",),
    ),
    Page(
        path="/projects/{id}",
        name="console.project",
        template="project.html",
        build=one,
        title="Project",
        nav="Projects",
    ),
)
