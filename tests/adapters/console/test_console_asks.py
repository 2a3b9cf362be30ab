"""What a page asks does not grow with what there is beside what it shows."""

from typing import Any

from adapters.console import ask
from adapters.console.pages import instances, node_pages, reservations
from adapters.registry import OPERATIONS
from given import Client, Plane


class Things:
    """Those of a plane; it keeps the names of what was asked."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._of, name)


def look(plane: Plane, client: Client, id: str) -> tuple[ask.Ask, Things, list[tuple[str, Any]]]:
    """At the page of a thing, with what it looks up and the operations that it asks with their requests."""
    asked: list[tuple[str, Any]] = []

    def reading(*by: Any) -> Any:
        read = plane.wired.dispatcher.reading(*by)

        def kept(operation: Any, request: Any, *call: Any) -> Any:
            asked.append((operation.name, request))
            return read(operation, request, *call)

        return kept

    things = Things(plane.store)
    desk = ask.desk(OPERATIONS, plane.wired.dispatcher, reading, plane.wired.authorizer, things, dict)
    session = plane.wired.authorizer.identify(client.headers["authorization"].removeprefix("Bearer "))
    assert session is not None
    return ask.Ask(desk, session, "", {"waitFor": str(plane.settle())}, {"id": id}), things, asked


def test_the_pools_that_a_node_can_go_to_are_looked_up_at_once(plane: Plane) -> None:
    site_id = plane.site()
    pool_id = plane.pool(site_id)
    node_id = plane.node(site_id, pool_id, "n0")
    counts = []
    for more in (1, 5):
        for n in range(more):
            plane.pool(site_id, f"other-{more}-{n}")
        at, things, asked = look(plane, plane.root, node_id)
        shown = node_pages.now_page(at)
        assert len(shown["pools"]) == {1: 2, 5: 7}[more]
        counts.append((things.asked.count("resolve"), things.asked.count("resolve_all"), len(asked)))
    assert counts[0] == counts[1]


def test_of_all_projects_one_is_asked_for_by_the_page_that_names_one(plane: Plane) -> None:
    pool_id, _ = plane.hosts()
    project_id = plane.project()
    made = plane.instance(pool_id, projectId=project_id)
    for page, id in ((reservations.one, made["reservationId"]), (instances.one, made["id"])):
        at, _, asked = look(plane, plane.acme, id)
        assert page(at)["project"] is not None
        assert [request.project_id for name, request in asked if name == "projects.list"] == [project_id]
