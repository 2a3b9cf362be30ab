"""`better-compute inventory`: look at a machine, or at what its tools printed, with no control plane."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from adapters.inventory.fragment import Fragment
    from domain.inventory import NodeInventory

_KINDS = {
    "nvidia-smi": "nvidia-smi -q -x, -L, nvlink --status, mig -lgi or topo -m",
    "dmidecode": "dmidecode",
    "lsblk": "lsblk -J -b",
    "lshw": "lshw -json",
    "lxd": "machine resources of LXD or MAAS",
    "ip-link": "ip -j -d link",
    "redfish": "a Redfish ComputerSystem, EthernetInterface, Processor or Drive",
    "ironic": "Ironic's GET /v1/nodes/{id}/inventory",
}


@click.group()
def inventory() -> None:
    """A machine's hardware: the NodeInventory document and its fingerprint."""


@inventory.command()
def collect() -> None:
    """Print this machine's inventory as JSON. Run as root to see serial number and product UUID."""
    from adapters.inventory import collect as machine
    from adapters.inventory.fragment import InventoryError

    try:
        _print(machine.collect())
    except InventoryError as wrong:
        _fail(str(wrong))


@inventory.command()
@click.argument("file")
def fingerprint(file: str) -> None:
    """Print fingerprint, trusted and identifiers of a NodeInventory FILE (`-`: standard input)."""
    from msgspec import json

    from domain import fingerprint as identity

    found = identity.fingerprint(_document(file))
    click.echo(json.format(json.encode(found), indent=2).decode())
    if found.fingerprint is None:
        click.echo("reason: no identifier could be read: run as root on the machine itself", err=True)


@inventory.command()
@click.argument("before")
@click.argument("after")
def diff(before: str, after: str) -> None:
    """Print what differs between two NodeInventory files (`-`: standard input), as JSON; nothing but [] if nothing."""
    from msgspec import json

    from domain import inventory_diff

    found = inventory_diff.changes(_document(before), _document(after))
    click.echo(json.format(json.encode(found), indent=2).decode())


def _document(file: str) -> "NodeInventory":
    from domain import errors
    from domain.inventory import NodeInventory

    try:
        return NodeInventory.parse(_read(file))
    except errors.Refusal as wrong:
        _fail(f"{file}: {wrong}; `better-compute inventory collect` prints one that is right")


def _file_options(command: Any) -> Any:
    for kind, made_by in reversed(_KINDS.items()):
        command = click.option(
            f"--{kind}", kind.replace("-", "_"), multiple=True, metavar="FILE", help=f"Output of {made_by}."
        )(command)
    return command


@inventory.command("from")
@_file_options
def from_files(**files: tuple[str, ...]) -> None:
    """Build an inventory from the output of tools on one machine; every option may be repeated."""
    from adapters.inventory import merge
    from adapters.inventory.fragment import InventoryError

    if not any(files.values()):
        _fail("no file is given; name at least one, for example --nvidia-smi FILE")
    try:
        _print(merge.build(_fragments(files)))
    except InventoryError as wrong:
        _fail(str(wrong))


def _fragments(files: dict[str, tuple[str, ...]]) -> "Iterator[Fragment]":
    from adapters.inventory import merge

    for kind, parse in merge.PARSERS.items():
        for file in files[kind.replace("-", "_")]:
            yield parse(_read(file), file)


def _read(file: str) -> bytes:
    from adapters.inventory.fragment import MAX_BYTES

    try:
        if file == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(file, "rb") as stream:
                content = stream.read(MAX_BYTES + 1)
    except OSError as wrong:
        _fail(f"{file}: cannot be read ({wrong.strerror}); name a file that exists")
    if len(content) > MAX_BYTES:
        _fail(f"{file}: is over {MAX_BYTES // 1_048_576} MiB; no machine's output is that long")
    return content


def _print(found: "NodeInventory") -> None:
    from msgspec import json

    from domain.inventory import encode

    click.echo(json.format(encode(found), indent=2).decode())


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(1)
