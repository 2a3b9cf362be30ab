"""docs/reference/settings.md, from the command line itself: every flag of what runs for long, every variable of all."""

from collections.abc import Iterator
from typing import Final

import click

from adapters.cli import main, profile_file, server_options
from adapters.settings import Settings

LONG: Final = ("serve", "migrate", "agent run", "agent simulate")
"""Commands whose flags are an installation's settings; those of all others are in their help."""

FILE: Final = f"| `{profile_file.ENVIRONMENT}` | – | the file of `better-compute profile`, and whatever asks a server |"
ASKING: Final = "whatever asks a server"
"""Every operation and some commands more: they take the same variables."""


def page(head: str) -> str:
    lines = [head, "# Settings\n"]
    lines.append(
        "A flag overrides its variable, and the variable the default. Commands that ask a server have"
        " further options: see `--help`.\n"
    )
    for name in LONG:
        command = _command(name)
        lines += [
            f"\n## {name}\n",
            f"{_sentence(command)}\n",
            "| flag | environment | default | meaning |\n|---|---|---|---|",
        ]
        lines += [_row(option) for option in _options(command)]
    lines += ["\n## Environment\n", "| variable | flag | of |\n|---|---|---|"]
    rows = [f"| `{name}` | `{flag}` | {', '.join(sorted(of))} |" for name, (flag, of) in _variables().items()]
    lines += sorted([*rows, FILE])
    return "\n".join(lines) + "\n"


def _command(name: str) -> click.Command:
    command: click.Command | None = main.Root()
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


def _sentence(command: click.Command) -> str:
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


def _options(command: click.Command) -> Iterator[click.Option]:
    yield from (option for option in command.params if isinstance(option, click.Option) and not option.hidden)


def _row(option: click.Option) -> str:
    variable = f"`{option.envvar}`" if isinstance(option.envvar, str) else ""
    said = option.help or ""
    if isinstance(option.type, click.Choice):
        said = f"{', '.join(f'`{one}`' for one in option.type.choices)}{'; ' if said else ''}{said}"
    return f"| `{'`, `'.join(option.opts)}` | {variable} | {_default(option)} | {said.replace('|', chr(92) + '|')} |"


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.multiple:
        return "–"
    value = getattr(Settings, option.name or "", None) if option.default is None else option.default
    return "–" if value is None or not isinstance(value, str | int | float) else f"`{value}`"


def _variables() -> dict[str, tuple[str, set[str]]]:
    """Every variable, with its flag, and the commands that read it."""
    found: dict[str, tuple[str, set[str]]] = {}
    for name, option in _all():
        if isinstance(option.envvar, str):
            found.setdefault(option.envvar, (option.opts[0], set()))[1].add(name)
    return found


def _all() -> Iterator[tuple[str, click.Option]]:
    yield from ((ASKING, option) for option in server_options.asking())
    root = main.Root()
    for name in main.STATIC:
        command = root.get_command(click.Context(root), name)
        hand = command.hand if isinstance(command, main.Group) else command
        if hand is not None:
            yield from _below(name, hand)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Option]]:
    asks = any(option.name == "_token" for option in command.params)
    yield from ((f"`{name}`", option) for option in _options(command) if not asks)
    if isinstance(command, click.Group):
        for verb, one in command.commands.items():
            yield from _below(f"{name} {verb}", one)
