"""The reference page of the command line: every command with its arguments, options and example (`make docs`)."""

from collections.abc import Iterator
from typing import Final

import click

from adapters.cli import instants, main, waiting

INTRODUCTION: Final = f"""\
`better-compute COMMAND …`, with `--help` at every level. Commands under [Here](#here) work on this machine; those
under [On a server](#on-a-server) ask a server, each for one operation of the [API](operations.md). `audit` and `iam`
have both kinds; the help of those that ask a server names the request.

## Where it asks, and as whom

Commands that ask a server take `--server`, `--token`, `--profile` and `--json`. An option overrides the
environment, the environment the profile, and the profile the default:

| | option | environment | default |
|---|---|---|---|
| server | `--server` | `BETTER_COMPUTE_SERVER` | the profile's, else `http://127.0.0.1:8080` |
| token | `--token` | `BETTER_COMPUTE_TOKEN` | the profile's, to the profile's server only |
| profile | `--profile` | `BETTER_COMPUTE_PROFILE` | the one in use (`better-compute profile use`) |

A profile given as an option overrides the environment. Profiles are in `~/.config/better-compute/config.toml`
(`XDG_CONFIG_HOME` is honoured, `BETTER_COMPUTE_CONFIG` names another file), created with mode 0600; a file that others
can read or write is refused. Everyone can see a token on a command line in `ps`, so `--token` is for tests.

## Exit status

| status | |
|---|---|
| 0 | done; with `--wait`, what was waited for was reached; with `--watch`, it was ended with Ctrl-C |
| 1 | refused: the server refused (4xx), `--wait` ended otherwise, or a local command found something wrong |
| 2 | wrong usage: nothing was asked; also a profile that does not exist or may not be read |
| 3 | the server failed (5xx), cannot be reached, was not done before `--timeout`, or its answer cannot be written |
| 130 | Ctrl-C, or the end of input where something was asked |
| 141 | nobody reads the output any more, as behind `head -1` |

What went wrong is on standard error, with the problem's code, its detail and the id of the request.

## Instants

Every instant is {instants.FORMS}; spans add up, as `-1h30m`, in s, m, h, d and w, by this machine's clock.
`--as-of` takes a position of the log as well, `@1234`.

## Output

Lists are tables, and single things `key  value` lines. On a terminal a table that is too wide is made to fit: headings
are stacked, instants become ages, empty columns are left out, ids of other things are shortened in the middle and texts
at the end. At last columns are left out from the right, and named on standard error. The first column and numbers are
never shortened. Into a pipe or file nothing is shortened. `--json` is the server's answer, `--id` and `--print FIELD`
print one field of it; `--where FIELD=VALUE` keeps the rows of a list that have this value.

`--watch [SECONDS]` shows what changes, asking every two seconds by default: in place on a terminal, otherwise as a
block for each change with its instant, with `--json` as a line for each. If the server fails it is asked again; if it
refuses, the watch ends.

`--wait` asks again until what was begun is done, and shows each change on standard error. It exists for
{{waits}}. An upload and `images add` show how far they are, and end when the server has the bytes.

## Completion

    eval "$(_BETTER_COMPUTE_COMPLETE=bash_source better-compute)"      # bash; zsh_source for zsh
    _BETTER_COMPUTE_COMPLETE=fish_source better-compute | source       # fish

It completes commands, options, their choices, names of profiles, and ids of things: of the newest thousand that the
server lists within a second, those whose id or name begins with what is typed. A server that is slower, or refuses,
completes nothing and says nothing.
"""


def page(head: str) -> str:
    """The page, from the tree of commands."""
    root = main.Root()
    ctx = click.Context(root, info_name="better-compute", color=False, **root.context_settings)
    waits = ", ".join(f"`{_typed(name)}`" for name in waiting.WAITS)
    lines = [head, "# Command line\n", INTRODUCTION.replace("{waits}", waits)]
    for title, names in (("Here", root.static), ("On a server", list(root.groups))):
        lines.append(f"\n## {title}\n")
        for name in names:
            if title == "Here" or name not in root.static:
                lines += _command(root, ctx, name, 3)
    return "\n".join(lines).rstrip() + "\n"


def _command(group: click.Group, parent: click.Context, name: str, depth: int) -> Iterator[str]:
    """A command and, of a group, those in it; hidden ones are left out."""
    found = group.get_command(parent, name)
    if found is None or found.hidden:
        return
    ctx = found.context_class(found, info_name=name, parent=parent)
    yield f"\n{'#' * depth} {ctx.command_path.removeprefix('better-compute ')}\n"
    yield _paragraphs(found.help or "")
    if isinstance(found, click.Group):
        for verb in found.list_commands(ctx):
            yield from _command(found, ctx, verb, depth + 1)
        return
    usage = " ".join([ctx.command_path, *found.collect_usage_pieces(ctx)])
    yield f"\n    {usage}\n"
    yield from _options(found, ctx)
    if example := _example(found, ctx):
        yield f"\nExample:\n\n{example}"


def _paragraphs(text: str) -> str:
    return "\n\n".join(map(_paragraph, text.split("\n\n"))).strip()


def _paragraph(text: str) -> str:
    """What click is told to leave as it is are lines of code."""
    first, *lines = text.strip().split("\n")
    if first == "\b":
        return "\n".join(f"    {line.strip()}" for line in lines)
    return " ".join(text.split())


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Those that only this command has; what all that ask a server share is told once."""
    rows = [_row(param, ctx) for param in command.params if isinstance(param, click.Option) and not _shared(param)]
    if rows:
        yield "| option | |\n|---|---|"
        yield from rows


def _row(option: click.Option, ctx: click.Context) -> str:
    names, text = option.get_help_record(ctx) or ("", "")
    cells = (" ".join(names.split()), " ".join(text.split()))
    return "| `{}` | {} |".format(*(cell.replace("|", "\\|") for cell in cells))


def _shared(option: click.Option) -> bool:
    return option.name in ("_server", "_token", "_profile", "_json")


def _example(command: click.Command, ctx: click.Context) -> str:
    """As in its help, indented as code."""
    formatter = click.HelpFormatter(width=120)
    command.format_epilog(ctx, formatter)
    lines = formatter.getvalue().partition("Example:\n")[2].rstrip().split("\n")
    return "\n".join(f"    {line.removeprefix('    ').removeprefix('  ')}" for line in lines) if any(lines) else ""


def _typed(name: str) -> str:
    noun, _, verb = name.partition(".")
    return f"{main.kebab(noun)} {main.kebab(verb)}"
