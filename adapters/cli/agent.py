"""`better-compute agent`: the agent of a real machine, and simulated nodes for trying the plane out."""

import asyncio
import contextlib
import os
import re
import resource
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from adapters.agent.driver import Make
    from adapters.agent.simulate import Fleet, Member, Model

_SPARE_FILES = 256


@click.group()
def agent() -> None:
    """Run this machine as a node, or simulate nodes."""


def _address(context: click.Context, option: click.Parameter, value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise click.BadParameter("it is an address such as http://127.0.0.1:8080")
    return value.rstrip("/")


def _labels(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    if wrong := [value for value in values if not re.match(r"[^=]+=", value)]:
        raise click.BadParameter(f"{wrong[0]!r} is no label; one is KEY=VALUE")
    return dict(value.split("=", 1) for value in values)


def _program(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    try:
        words = tuple(shlex.split(value)) if value is not None else None
    except ValueError as wrong:
        raise click.BadParameter(f"it is no command line: {wrong}") from None
    if words == ():
        raise click.BadParameter("it is a command line, and this one is empty")
    return words


def _network(context: click.Context, option: click.Parameter, value: str) -> str | None:
    from adapters.agent.qemu import settings

    try:
        return settings.network(value)
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None


_SERVER = click.option(
    "--server",
    envvar="BETTER_COMPUTE_SERVER",
    default="http://127.0.0.1:8080",
    show_default=True,
    callback=_address,
    help="the plane's address",
)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@agent.command()
@_SERVER
@click.option("--join-token", envvar="BETTER_COMPUTE_JOIN_TOKEN", help="for the first start; later ones need none")
@click.option("--state", type=_DIRECTORY, required=True, help="the agent's own directory: key, journal, images")
@click.option("--name", help="of the node; default: the host's name")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_labels,
    help="of the node, at its join; may be repeated",
)
@click.option("--address", help="the node's address, given at its join")
@click.option(
    "--cdi-dir", type=_DIRECTORY, default="/var/run/cdi", show_default=True, help="where CDI files are written"
)
@click.option("--root", type=_DIRECTORY, default="/", show_default=True, help="where the host's files are mounted")
@click.option(
    "--inventory-seconds",
    type=click.FloatRange(1, 3600),
    default=60,
    show_default=True,
    help="seconds between looks at the hardware",
)
@click.option(
    "--reboot-command",
    default="systemctl reboot",
    show_default=True,
    callback=_program,
    help="reboots the machine",
)
@click.option(
    "--upgrade-command",
    callback=_program,
    help="installs a given version; without it no upgrades",
)
@click.option("--driver", type=click.Choice(["qemu"]), help="how instances are run; without it the node runs none")
@click.option(
    "--network",
    "bridge",
    default="user",
    show_default=True,
    metavar="user|bridge=NAME",
    callback=_network,
    help="of instances: one of QEMU's own each, in which they reach what this host reaches, or a bridge of the host",
)
@click.option("--accelerator", type=click.Choice(["kvm", "tcg"]), help="default: KVM where /dev/kvm can be opened")
@click.option("--qemu-user", help="the user QEMU runs as once it has opened its files; default: the agent's user")
def run(**given: Any) -> None:
    """Run this machine as a node, until SIGTERM."""
    from adapters import telemetry
    from adapters.agent.joining import JoinRefused
    from adapters.agent.run import Agent, AgentError, Settings

    telemetry.configure()
    settings = Settings(
        server=given["server"],
        state=given["state"].absolute(),
        token=given["join_token"],
        name=given["name"],
        labels=given["labels"],
        address=given["address"],
        cdi=given["cdi_dir"].absolute(),
        root=given["root"].absolute(),
        inventory_seconds=given["inventory_seconds"],
        reboot=given["reboot_command"],
        upgrade=given["upgrade_command"],
        make_driver=_driver(given),
    )

    async def stay() -> bool:
        return await Agent(settings).run()

    try:
        upgraded = asyncio.run(stay())
    except (AgentError, JoinRefused) as refused:
        click.echo(f"error: {refused}", err=True)
        sys.exit(1)
    if upgraded:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _driver(given: dict[str, Any]) -> "Make | None":
    from adapters.agent.qemu import driver, settings

    if given["driver"] is None:
        return None
    return driver.make(
        settings.Settings(bridge=given["bridge"], accelerator=given["accelerator"], user=given["qemu_user"])
    )


@agent.command()
@click.argument("count", metavar="N", type=click.IntRange(1, 20_000))
@_SERVER
@click.option("--join-token", envvar="BETTER_COMPUTE_JOIN_TOKEN", required=True, help="a token with N uses, or more")
@click.option(
    "--model", type=click.Choice(["H100", "A100", "L4"]), default="H100", show_default=True, help="of their GPUs"
)
@click.option("--no-mig", is_flag=True, help="A100: whole GPUs instead of seven slices each")
@click.option("--prefix", help="of the nodes' names, which are <prefix>-<n>; default: sim-<model>")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="file for the nodes' keys; started with it again, they are the same nodes",
)
def simulate(
    count: int, server: str, join_token: str, model: "Model", no_mig: bool, prefix: str | None, state: Path
) -> None:
    """Simulate N nodes until interrupted.

    They join once, stay connected, and simulate preparing allocations and running commands.
    """
    from adapters.agent.simulate import Fleet, JoinRefused

    _may_open(count + _SPARE_FILES)
    start = prefix or f"sim-{model.lower()}"
    fleet = Fleet(server, _members(count, join_token, model, start, no_mig=no_mig), state)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_run(fleet, count))
    except JoinRefused as refused:
        click.echo(f"error: {refused}", err=True)
        sys.exit(1)


def _may_open(files: int) -> None:
    """Each node has a connection of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < files:
        if hard != resource.RLIM_INFINITY and hard < files:
            raise click.UsageError(f"N needs {files} open files and this process may have {hard}; see `ulimit -Hn`")
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def _members(count: int, join_token: str, model: "Model", prefix: str, *, no_mig: bool) -> "list[Member]":
    """Hardware follows from the prefix, so that two simulations with different ones share no machine."""
    from adapters.agent.simulate import Member, inventory_for

    layout = () if no_mig else None
    return [
        Member(
            name=f"{prefix}-{n}",
            join_token=join_token,
            inventory=partial(inventory_for, model, index=n, seed=prefix, hostname=f"{prefix}-{n}", mig_layout=layout),
            labels={"rack": f"r{n // 4 + 1}", "simulated": "true"},
        )
        for n in range(1, count + 1)
    ]


async def _run(fleet: "Fleet", count: int) -> None:
    await fleet.join()
    click.echo(f"{count} simulated nodes have joined; interrupt to stop them")
    await fleet.run()
