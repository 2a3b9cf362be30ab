"""The entry point `better-compute`; it knows what it lists without importing it, so help comes at once."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from adapters.cli import leaving

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from domain.operation import Operation, Table

Registry = Callable[[], "Table"]


class Static(NamedTuple):
    """A command written by hand: where it is, as `module:attribute`, and its line in the help."""

    path: str
    summary: str


STATIC: Final = {
    "top": Static("adapters.cli.top:top", "Watch capacity, queue, nodes and instances of a server, live."),
    "reserve": Static("adapters.cli.reserve:reserve", "Reserve devices; asks what is missing when on a terminal."),
    "serve": Static("adapters.cli.serve:serve", "Run the control plane: API, gateway and workers."),
    "migrate": Static("adapters.cli.migrate:migrate", "Bring the database's schema up to date."),
    "database": Static("adapters.cli.backup:group", "Back the database up, and restore it."),
    "projections": Static("adapters.cli.projections:projections", "List the read models, retry or rebuild them."),
    "audit": Static("adapters.cli.audit:audit", "Replay, export and verify the log; compare the tables with it."),
    "inventory": Static("adapters.cli.inventory:inventory", "Show the hardware of this machine."),
    "agent": Static("adapters.cli.agent:agent", "Make this machine a node, or simulate nodes."),
    "iam": Static("adapters.cli.iam:iam", "Evaluate policies, and check an access file."),
    "profile": Static("adapters.cli.profile:profile", "Name servers and their tokens: set, list, use, show, remove."),
    "token": Static("adapters.cli.token:token", "Create access tokens, list and revoke them."),
}

HELPED: Final = {
    "image-signers": "adapters.cli.image_signers:signers",
    "images": "adapters.cli.images:images",
    "instances": "adapters.cli.instances:instances",
}
"""Groups of operations with verbs by hand that ask a server too: one that bears an operation's name stands for it."""

GROUPS: Final = {
    "sites": "Places with nodes.",
    "pools": "Sets of nodes, and the tenants they are offered to.",
    "offerings": "Pools as offered to one tenant: quota and use.",
    "projects": "Groupings of what a tenant claims.",
    "quotas": "Limits on what tenants and projects may hold at once.",
    "budgets": "GPU-hours that tenants and projects may spend.",
    "flavors": "Named sizes of instances.",
    "images": "What instances start from: register, sign, retire.",
    "instances": "Virtual machines, microVMs and containers: create, start, stop, reboot, console, delete.",
    "image-signers": "Whose signatures make images verified.",
    "join-tokens": "Credentials that new nodes join with.",
    "nodes": "Machines: join, assign, adopt, cordon, drain, maintain, retire.",
    "commands": "Commands to nodes.",
    "devices": "The GPUs and other devices of the nodes.",
    "capacity": "What each pool has, holds and has left.",
    "reservations": "Claims on devices for a time.",
    "extensions": "Requests to move the ends of reservations.",
    "allocations": "What each reservation has on each node.",
    "bookings": "Devices taken, by interval.",
    "usage": "GPU-hours used.",
    "leases": "Which process owns which of the controllers' jobs, and whether clocks are trusted.",
    "events": "The log as it grows.",
    "iam": "What access policies speak of.",
    "audit": "What happened, by whom, under which decision.",
}
"""Groups of operations; a test compares them with the registry, too slow to import for a line of help."""

EPILOG: Final = """\b
Operations go to a server; name it and your token once (`better-compute profile set`), or in the environment:
  BETTER_COMPUTE_SERVER   default http://127.0.0.1:8080
  BETTER_COMPUTE_TOKEN    safer than --token, which others see in `ps`
  BETTER_COMPUTE_PROFILE  a profile other than the one in use
\b
Completion, in the start file of your shell:
  bash  eval "$(_BETTER_COMPUTE_COMPLETE=bash_source better-compute)"
  zsh   eval "$(_BETTER_COMPUTE_COMPLETE=zsh_source better-compute)"
  fish  _BETTER_COMPUTE_COMPLETE=fish_source better-compute | source
\b
Exit status: 0 done, 1 refused, 2 wrong usage, 3 the server failed, is out of reach, or its answer cannot be written,
130 given up (Ctrl-C), 141 nobody reads the output any more.
"""


def registered() -> "Table":
    """The operations of this build; importing them takes longer than showing help may."""
    from adapters import registry

    return registry.OPERATIONS


def load(static: Static) -> click.Command | None:
    """Import a command written by hand; None where this build has no such module."""
    module, attribute = static.path.split(":")
    try:
        command = getattr(import_module(module), attribute)
    except ModuleNotFoundError as missing:
        if missing.name != module:
            raise
        return None
    if not isinstance(command, click.Command):
        raise TypeError(f"{static.path} is no click command")
    return command


class Group(click.Group):
    """The verbs of one noun: those written by hand, then the operations.

    Where both have a verb, the operation is `remote-<verb>`: it asks a server, the other works on the spot. Verbs
    that are `for_server` ask one too, and stand for the operation.
    """

    def __init__(
        self,
        name: str,
        registry: Registry,
        hand: click.Group | None = None,
        *,
        for_server: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(name, no_args_is_help=True, **attributes)
        self.registry = registry
        self.hand = hand
        self.for_server = for_server

    def list_commands(self, ctx: click.Context) -> list[str]:
        by_hand = self.hand.list_commands(ctx) if self.hand else []
        return [*by_hand, *sorted(self._operations(by_hand))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        by_hand = self.hand.list_commands(ctx) if self.hand else []
        if self.hand and cmd_name in by_hand:
            return self.hand.get_command(ctx, cmd_name)
        operation = self._operations(by_hand).get(cmd_name)
        if operation is None:
            return None
        from adapters.cli import operations

        return operations.command(operation, self.registry())

    def _operations(self, taken: list[str]) -> dict[str, "Operation"]:
        from adapters.cli import operations

        verbs = operations.verbs(self.registry(), self.name or "")
        if self.for_server:
            return {verb: operation for verb, operation in verbs.items() if verb not in taken}
        return {f"remote-{verb}" if verb in taken else verb: operation for verb, operation in verbs.items()}


class Root(click.Group):
    """The top of the tree; it imports what is behind a name only when that name is used."""

    def __init__(
        self,
        registry: Registry = registered,
        static: Mapping[str, Static] = STATIC,
        groups: Mapping[str, str] = GROUPS,
        helped: Mapping[str, str] = HELPED,
    ) -> None:
        version = click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Show the version and exit.",
        )
        super().__init__(
            "better-compute",
            help="The control plane of a GPU cloud.",
            epilog=EPILOG,
            no_args_is_help=True,
            params=[version],
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        )
        self.registry = registry
        self.static = static
        self.groups = groups
        self.helped = helped

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        with leaving.told():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with leaving.told():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.static, *(name for name in self.groups if name not in self.static)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = kebab(cmd_name)
        if name in self.groups and name in self.helped:
            helping = load(Static(self.helped[name], ""))
            return self._group(name, helping if isinstance(helping, click.Group) else None, for_server=True)
        hand = load(self.static[name]) if name in self.static else None
        if name in self.groups and not (hand and not isinstance(hand, click.Group)):
            return self._group(name, hand if isinstance(hand, click.Group) else None)
        if hand is None and name in self.static:
            raise click.ClickException(f"{name!r} is not part of this build")
        if hand is None and name in map(kebab, self.registry().nouns):
            return Group(name, self.registry, help=f"Operations on {name}.")
        return hand

    def _group(self, name: str, hand: click.Group | None, *, for_server: bool = False) -> Group:
        """A group by hand keeps its own options, callback and help when operations join it."""
        if hand is None:
            return Group(name, self.registry, help=self.groups[name])
        kept = {"params": hand.params, "callback": hand.callback, "help": hand.help or self.groups[name]}
        return Group(name, self.registry, hand, for_server=for_server, **kept)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Two lists, from the tables above: click would import every command for its line."""
        with formatter.section("Here"):
            formatter.write_dl([(name, static.summary) for name, static in self.static.items()])
        with formatter.section("On a server (`better-compute nodes --help` lists the verbs of nodes)"):
            formatter.write_dl([(name, line) for name, line in self.groups.items() if name not in self.static])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        from click.shell_completion import CompletionItem

        by_hand = {name: static.summary for name, static in self.static.items()}
        lines = by_hand | dict(self.groups) | by_hand
        names = [name for name in lines if name.startswith(incomplete)]
        items = [CompletionItem(name, help=lines[name]) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def kebab(name: str) -> str:
    """`joinTokens`, `pool_id` and `memoryGiB` as one types them: `join-tokens`, `pool-id`, `memory-gib`."""
    return re.sub(r"(?<!^)(?=[A-Z](?!$))", "-", name).lower().replace("_", "-")


def main(arguments: list[str] | None = None) -> None:
    """Run one command line and leave with its exit status."""
    leaving.prepare()
    Root().main(arguments, prog_name="better-compute")


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from importlib import metadata

    try:
        version = metadata.version("better-compute")
    except metadata.PackageNotFoundError:
        version = "run from its source"
    click.echo(f"better-compute {version}")
    ctx.exit()


if __name__ == "__main__":
    main()
