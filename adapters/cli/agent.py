"""`better-compute agent`: simulated nodes, for demonstrations and for trying the plane out."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from adapters.agent.simulate import Fleet, Member, Model


@click.group()
def agent() -> None:
    """Simulate nodes that join and stay connected."""


@agent.command()
@click.argument("count", metavar="N", type=click.IntRange(1, 1000))
@click.option("--server", envvar="BETTER_COMPUTE_SERVER", default="http://127.0.0.1:8080", show_default=True)
@click.option("--join-token", envvar="BETTER_COMPUTE_JOIN_TOKEN", required=True, help="a token with N uses, or more")
@click.option("--model", type=click.Choice(["H100", "A100", "L4"]), default="H100", show_default=True)
@click.option("--no-mig", is_flag=True, help="A100: whole GPUs instead of seven slices each")
@click.option("--prefix", help="of the nodes' names, which are <prefix>-<n>; default: sim-<model>")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="file for the nodes' keys; a second start with it brings the same nodes back",
)
def simulate(
    count: int, server: str, join_token: str, model: "Model", no_mig: bool, prefix: str | None, state: Path
) -> None:
    """Simulate N nodes until interrupted.

    They join once, stay connected and pretend to prepare what is bound to them.
    """
    from adapters.agent.simulate import Fleet, JoinRefused

    if not server.startswith(("http://", "https://")):
        raise click.UsageError("--server is an address such as http://127.0.0.1:8080")
    start = prefix or f"sim-{model.lower()}"
    fleet = Fleet(server, _members(count, join_token, model, start, no_mig=no_mig), state)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(fleet, count))
    except JoinRefused as refused:
        click.echo(f"error: {refused}", err=True)
        sys.exit(1)


def _members(count: int, join_token: str, model: "Model", prefix: str, *, no_mig: bool) -> "list[Member]":
    """Hardware follows from the prefix, so that two simulations with different ones share no machine."""
    from adapters.agent.simulate import Member, inventory_for

    layout = () if no_mig else None
    return [
        Member(
            name=f"{prefix}-{n}",
            join_token=join_token,
            inventory=inventory_for(model, index=n, seed=prefix, hostname=f"{prefix}-{n}", mig_layout=layout),
            labels={"rack": f"r{n // 4 + 1}", "simulated": "true"},
        )
        for n in range(1, count + 1)
    ]


async def _run(fleet: "Fleet", count: int) -> None:
    await fleet.join()
    click.echo(f"{count} simulated nodes have joined; interrupt to stop them")
    await fleet.run()
