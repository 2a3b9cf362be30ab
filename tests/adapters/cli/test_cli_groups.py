"""A noun has verbs written by hand and verbs from the registry, under one name."""

import sys
from types import ModuleType

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from adapters.cli import main
from domain.operation import Operation, Request, table


def declare(name: str) -> Operation:
    path = "/v1/" + name.replace(".", "/")
    kept = {"request": Request, "response": dict, "on": (), "handle": dict, "summary": f"Ask {name}."}
    return Operation(name=name, verb="POST", path=path, **kept)


REGISTRY = table(declare("audit.events"), declare("audit.verify"), declare("novel.things"))


@pytest.fixture
def root(monkeypatch) -> main.Root:
    @click.group()
    @click.option("--dsn", default="none")
    @click.pass_context
    def audit(ctx: click.Context, dsn: str) -> None:
        """Look at the log."""
        ctx.obj = dsn

    @audit.command()
    @click.pass_obj
    def verify(dsn: str) -> None:
        """Verify here."""
        click.echo(f"verified {dsn}")

    module = ModuleType("cli_hand_written")
    module.audit = audit  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cli_hand_written", module)
    static = {"audit": main.Static("cli_hand_written:audit", "Look at the log.")}
    return main.Root(registry=lambda: REGISTRY, static=static, groups={"audit": "Read the log."})


def test_both_kinds_of_verbs_are_listed_and_none_hides_another(root):
    shown = CliRunner().invoke(root, ["audit", "--help"]).output
    assert "Look at the log." in shown
    assert [line.split() for line in shown[shown.index("Commands:") :].splitlines()[1:]] == [
        ["verify", "Verify", "here."],
        ["events", "Ask", "audit.events."],
        ["remote-verify", "Ask", "audit.verify."],
    ]


def test_the_group_by_hand_keeps_its_options(root):
    assert CliRunner().invoke(root, ["audit", "--dsn", "x", "verify"]).output == "verified x\n"


def test_a_verb_by_hand_does_not_need_the_registry(root):
    root.registry = lambda: pytest.fail("the registry was imported")
    assert CliRunner().invoke(root, ["audit", "verify"]).output == "verified none\n"


def test_a_group_that_the_help_does_not_know_yet_is_found_in_the_registry(root):
    assert "Ask novel.things." in CliRunner().invoke(root, ["novel", "--help"]).output


def test_operations_are_there_where_the_module_by_hand_is_not(root):
    root.static = {"audit": main.Static("cli_hand_unwritten:audit", "Look at the log.")}
    assert "Ask audit.verify." in CliRunner().invoke(root, ["audit", "--help"]).output


def test_the_verbs_of_a_noun_complete_with_their_help(root):
    complete = ShellComplete(root, {}, "better-compute", "_BETTER_COMPUTE_COMPLETE")
    found = complete.get_completions(["audit"], "e")
    assert [(item.value, item.help) for item in found] == [("events", "Ask audit.events.")]
