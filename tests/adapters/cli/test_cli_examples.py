"""Every operation's help has an example that click takes, and that is a request of the operation."""

import json
import shlex

import click
import msgspec
import pytest

from adapters.cli import calling, examples, fields, main, operations
from adapters.registry import OPERATIONS
from wellformed import REQUESTS

HAND = ("profile", "image-signers", "images", "instances")


def command(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that the words name, its context, and the words that are left."""
    found: click.Command = main.Root()
    ctx = click.Context(found, info_name="better-compute", **found.context_settings)
    while isinstance(found, click.Group):
        name, following, words = found.resolve_command(ctx, words)
        assert following is not None
        ctx = click.Context(following, ctx, name)
        found = following
    return found, ctx, words


def shown(ctx: click.Context, found: click.Command) -> list[str]:
    """The example in a help, as a shell would read it."""
    line = found.get_help(ctx).partition("Example:\n")[2].strip()
    return shlex.split(line.replace("\\\n", ""))


@pytest.fixture
def _files(tmp_path, monkeypatch):
    """What some examples read."""
    for name, file in examples.FILES.items():
        (tmp_path / file).write_text(json.dumps(REQUESTS[name][1]))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_the_example_in_the_help_is_a_request(operation):
    words = examples.words(operation)
    group = click.Context(main.Root()).command.get_command(click.Context(main.Root()), words[0])
    verbs = group.list_commands(click.Context(group))
    typed = f"remote-{words[1]}" if f"remote-{words[1]}" in verbs else words[1]
    found, ctx, _ = command([words[0], typed])
    if not isinstance(found, operations.Command):
        assert (words[0], words[1]) == ("instances", "console"), "another command stands for the operation"
        return
    program, *line = shown(ctx, found)
    assert program == "better-compute"
    again, ctx, rest = command(line)
    assert again.name == found.name
    ctx = again.make_context(typed, rest, parent=ctx.parent)
    values = {name: value for name, value in ctx.params.items() if not name.startswith("_")}
    path, body = calling.assemble(operation, values, ctx.params.get("_json_body"))
    in_path = {known.encode_name: values[name] for name, known in fields.of(operation).items() if name in values}
    request = msgspec.convert({name: in_path[name] for name in operation.path_fields} | body, operation.request)
    assert isinstance(request, operation.request)
    assert "{" not in path


def hand_written():
    root = main.Root()
    for name in HAND:
        hand = main.load(root.static[name] if name in root.static else main.Static(root.helped[name], ""))
        assert isinstance(hand, click.Group)
        yield from ([name, verb] for verb in hand.commands)


@pytest.mark.parametrize("words", [*hand_written()], ids=" ".join)
def test_a_command_by_hand_that_asks_a_server_or_names_one_has_an_example(words):
    found, ctx, _ = command(list(words))
    program, *line = shown(ctx, found)
    again, _, _ = command(line[: line.index(">")] if ">" in line else line)
    assert (program, again.name) == ("better-compute", found.name)


def test_an_example_fits_a_narrow_terminal():
    lines = [line for operation in OPERATIONS.values() for line in examples.line(operation).split("\n")]
    assert max(map(len, lines)) <= examples.WIDTH + 2
