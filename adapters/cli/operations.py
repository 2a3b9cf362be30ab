"""A click command for each operation of the registry: it asks a server and shows the answer to a person."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from adapters.cli import completing, fields, picking, server_options, waiting, watching
from adapters.cli.main import kebab
from domain.operation import Operation, Table

EVERY: Final = f"{watching.EVERY_SECONDS:g}"
_WATCH: Final = "--watch"
_NUMBER: Final = re.compile(r"[0-9]*\.?[0-9]+")


def verbs(registry: Table, group: str) -> dict[str, Operation]:
    """The operations of a group under the verb one types: `nodes.cordon` is `cordon` of `nodes`."""
    noun = next((noun for noun in registry.nouns if kebab(noun) == group), "")
    return {kebab(name.partition(".")[2].replace(".", "-")): one for name, one in registry.of(noun).items()}


class Command(click.Command):
    """The command of an operation; it knows its operation, for the reference."""

    operation: Operation

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """An example, as one copies it: click would break its lines anew."""
        from adapters.cli import examples

        with formatter.section("Example"):
            for line in examples.line(self.operation, ctx.info_name).split("\n"):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--watch` may stand before an argument: only a number that follows is its pause."""
        if any("--watch" in param.opts for param in self.params):
            args = [f"{_WATCH}={EVERY}" if _bare_watch(args, at) else word for at, word in enumerate(args)]
        return super().parse_args(ctx, args)


def command(operation: Operation, registry: Table) -> Command:
    """The command of one operation; `registry` is where `--wait` finds what it asks again."""
    known = fields.of(operation)
    in_path = fields.path_names(operation)
    completes = {name: completing.of(operation, registry, field) for name, field in known.items()}
    arguments = [fields.argument(known[name], completes[name]) for name in in_path]
    options = [fields.option(field, completes[name]) for name, field in known.items() if name not in in_path]
    if operation.content is not None:
        arguments.append(click.Argument(["_file"], metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)))
    verb = operation.name.partition(".")[2].replace(".", "-")
    made = Command(
        kebab(verb),
        params=[*arguments, *options, *_own_options(operation)],
        callback=partial(_run, operation, registry),
        help=f"{operation.summary}\n\n{operation.verb} {operation.path}, decided as {operation.action}",
        short_help=operation.summary,
    )
    made.operation = operation
    return made


def _run(operation: Operation, registry: Table, **values: Any) -> None:
    """Only who asks a server needs what asks one: help comes sooner."""
    from adapters.cli import calling

    calling.run(operation, registry, **values)


def _own_options(operation: Operation) -> Iterator[click.Option]:
    if operation.in_url:
        if operation.streaming is None:
            text = f"show what changes, asking every so many seconds [{EVERY} if left out], until Ctrl-C"
            pause = click.FloatRange(min=watching.LEAST_SECONDS)
            yield click.Option(
                ["_watch", _WATCH],
                type=pause,
                is_flag=False,
                flag_value=watching.EVERY_SECONDS,
                metavar="[SECONDS]",
                help=text,
            )
        if "cursor" in fields.of(operation):
            yield click.Option(["_all", "--all"], is_flag=True, help="follow nextCursor to the end")
    else:
        if operation.content is None:
            whole = "the request as a JSON object, - for standard input; other options override it"
            yield click.Option(["_json_body", "--json-body"], type=click.File(encoding="utf-8"), help=whole)
        if not operation.looks:
            yield click.Option(["_if_match", "--if-match"], type=int, help="only if it still has this version")
    if operation.key != "none":
        made = "made if left out" if operation.key == "required" else "none if left out"
        text = f"a retry with the same key acts only once; {made}"
        yield click.Option(["_idempotency_key", "--idempotency-key"], help=text)
    if operation.name in waiting.WAITS:
        yield from waiting.option(waiting.WAITS[operation.name])
    yield from picking.options(operation)
    credential = {"join-token": "join token", "resolver": "resolver key"}.get(operation.credential, "access token")
    yield from server_options.asking(credential)


def _bare_watch(words: list[str], at: int) -> bool:
    """Whether a word is `--watch` with no number behind it."""
    following = words[at + 1 : at + 2]
    return words[at] == _WATCH and not (following and _NUMBER.fullmatch(following[0]))
