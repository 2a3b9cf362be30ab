"""GPU-hours in steps add up to what the list of usage says, whatever the steps."""

import pytest

from given import Client, Plane

HOUR = 3_600_000


def spans(plane: Plane, *of: tuple[str, str | None, str, int, int, int | None]) -> None:
    """Rows of tenant, project, model, GPUs, from, until, as the read model has them."""
    with plane.wired.reads.connection() as connection:
        for number, (tenant, project, model, gpus, begins, ends) in enumerate(of):
            connection.execute(
                """INSERT INTO usage_spans (allocation_id, resource, reservation_id, tenant_id, project_id, pool_id,
                       gpu_model, amount, gpus, starts_at, ends_at, begun_position, ended_position)
                   VALUES (%s, 'gpu', 'rsv_1', %s, %s, 'pool_1', %s, %s, %s, %s, %s, 0, %s)""",
                (f"alloc_{number}", tenant, project, model, gpus, gpus, begins, ends, None if ends is None else 0),
            )


def hours(client: Client, query: str) -> dict[str | None, list[float]]:
    shown = client.ok("GET", f"/v1/usage/timeline?{query}")
    return {one.get("name"): one["gpuHours"] for one in shown["series"]}


def test_a_span_counts_in_each_step_for_as_long_as_it_ran_there(plane: Plane) -> None:
    spans(plane, ("acme", None, "H100", 2, HOUR // 2, 2 * HOUR + HOUR // 4), ("acme", "prj_1", "L4", 1, 0, HOUR))
    assert hours(plane.acme, f"from=0&until={3 * HOUR}&step=3600&by=gpuModel") == {
        "H100": [1.0, 2.0, 0.5],
        "L4": [1.0, 0.0, 0.0],
    }
    assert hours(plane.acme, f"from=0&until={3 * HOUR}&step=10800&by=project") == {None: [3.5], "prj_1": [1.0]}
    assert hours(plane.acme, f"from={HOUR}&until={2 * HOUR}&step=1800") == {"acme": [1.0, 1.0]}


@pytest.mark.parametrize("step", [60, 3601, 7200, 86_400])
def test_the_steps_add_up_to_the_list(plane: Plane, step: int) -> None:
    spans(plane, ("acme", None, "H100", 3, 12_345, 9 * HOUR + 678), ("acme", None, "H100", 8, HOUR - 1, 5 * HOUR))
    until = min(9 * HOUR, 12_000 + step * 1000 * 399)
    (row,) = plane.acme.ok("GET", f"/v1/usage?from=12000&until={until}")["items"]
    told = hours(plane.acme, f"from=12000&until={until}&step={step}")["acme"]
    assert sum(told) == pytest.approx(row["gpuHours"])


def test_each_tenant_sees_its_own_and_the_platform_all(plane: Plane) -> None:
    spans(plane, ("acme", None, "H100", 1, 0, HOUR), ("globex", None, "H100", 4, 0, HOUR))
    query = f"from=0&until={HOUR}&step=3600"
    assert hours(plane.acme, query) == {"acme": [1.0]}
    assert hours(plane.globex, query) == {"globex": [4.0]}
    assert hours(plane.root, f"{query}&scope=fleet") == {"globex": [4.0], "acme": [1.0]}
    assert plane.acme.get(f"/v1/usage/timeline?{query}&scope=fleet").status_code == 403


def test_as_of_tells_what_was_known(plane: Plane) -> None:
    """What had not begun was not there, what had not ended went on."""
    pool_id, _ = plane.fleet()
    before = plane.head()
    made = plane.acme.reserve(pool_id).json()
    plane.activate(plane.acme, made["id"])
    plane.settle()
    assert hours(plane.acme, f"asOf=@{before}&step=86400") == {}
    ((_, told),) = hours(plane.acme, "step=86400").items()
    assert sum(told) > 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=0&until=86400000&step=60", "step"),
        ("from=5&until=5", "until"),
        ("step=59", "step"),
        ("by=colour", "by"),
        ("scope=all", "scope"),
    ],
)
def test_what_is_wrong_is_named(plane: Plane, query: str, field: str) -> None:
    answer = plane.acme.get(f"/v1/usage/timeline?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
