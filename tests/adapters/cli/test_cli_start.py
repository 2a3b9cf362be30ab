"""Starting is quick because nothing is imported that the command line does not need."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from adapters.cli import main, token
from adapters.registry import DECLARED
from domain.operation import table

ROOT = Path(__file__).parents[3]
SLOW = ("msgspec", "httpx", "litestar", "psycopg", "cryptography", "urllib.request", "asyncio")
OURS = ("domain", "commands", "queries", "projections", "adapters.registry", "adapters.cli.operations")


def imported_by(*arguments: str) -> set[str]:
    """Names of the modules that are loaded once a command line has run."""
    code = (
        "import json, sys\n"
        "from adapters.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as leaving:\n    assert leaving.code == 0, leaving.code\n"
        "finally:\n    print('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    line = [sys.executable, "-c", code, *arguments]
    ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_help_imports_neither_libraries_nor_our_own_code():
    loaded = imported_by("--help")
    assert [name for name in (*SLOW, *OURS) if name in loaded] == []
    hand = {static.path.partition(":")[0] for static in main.STATIC.values()}
    assert loaded & hand == set()


def test_a_command_by_hand_imports_only_itself():
    loaded = imported_by("token", "--help")
    assert "adapters.cli.token" in loaded
    assert [name for name in (*SLOW, *OURS) if name in loaded] == []


def test_the_help_of_an_operation_imports_no_database_and_no_server():
    loaded = imported_by("nodes", "list", "--help")
    assert [name for name in ("psycopg", "httpx", "litestar", "cryptography", "eventsourcing") if name in loaded] == []


def test_an_operation_imports_what_declares_its_noun_and_its_help_no_client():
    loaded = imported_by("pools", "list", "--help")
    assert {"queries.pools", "commands.pools"} <= loaded
    others = {module for noun, modules in DECLARED.items() if noun != "pools" for module in modules}
    assert others & loaded <= {"commands.offerings", "commands.evicting"}
    assert "http.client" not in loaded


def test_every_module_that_declares_operations_has_its_place_in_the_registry():
    declaring = {
        f"{path.parent.name}.{path.stem}"
        for room in ("commands", "queries")
        for path in (ROOT / room).glob("*.py")
        if re.search("^OPERATIONS\\b", path.read_text(), re.MULTILINE)
    }
    assert {module for modules in DECLARED.values() for module in modules} == declaring


def test_help_tells_every_name_and_how_completion_is_switched_on():
    shown = CliRunner().invoke(main.Root(), ["--help"])
    assert shown.exit_code == 0
    for name in (*main.STATIC, *main.GROUPS):
        assert f"\n  {name} " in shown.output
    assert "_BETTER_COMPUTE_COMPLETE=bash_source" in shown.output


def test_completing_the_first_word_imports_no_command():
    absent = {"ghost": main.Static("adapters.cli.ghost:ghost", "Not there.")}
    root = main.Root(registry=table, static=absent, groups={"goats": "None."})
    context = click.Context(root)
    assert [item.value for item in root.shell_complete(context, "g")] == ["ghost", "goats"]


def test_a_command_that_this_build_lacks_says_so():
    absent = {"ghost": main.Static("adapters.cli.ghost:ghost", "Not there.")}
    refused = CliRunner().invoke(main.Root(registry=table, static=absent, groups={}), ["ghost"])
    assert (refused.exit_code, refused.output) == (1, "Error: 'ghost' is not part of this build\n")


def test_a_name_that_nobody_knows_is_wrong_usage():
    refused = CliRunner().invoke(main.Root(registry=table), ["gpus"])
    assert refused.exit_code == 2
    assert "No such command 'gpus'" in refused.output


def test_a_broken_import_inside_a_command_is_not_taken_for_its_absence(tmp_path, monkeypatch):
    (tmp_path / "cli_broken_module.py").write_text("import no_such_library_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library_at_all"):
        main.load(main.Static("cli_broken_module:run", ""))


@pytest.mark.parametrize("static", main.STATIC.values(), ids=main.STATIC)
def test_every_command_by_hand_can_be_loaded(static):
    assert isinstance(main.load(static), click.Command)


def test_the_groups_in_the_help_are_those_of_the_registry():
    assert {main.kebab(name.partition(".")[0]) for name in main.registered()} == set(main.GROUPS)


def test_every_operation_has_a_command_with_help():
    root = main.Root()
    for name, operation in main.registered().items():
        group, _, verb = name.partition(".")
        nouns = root.get_command(click.Context(root), group)
        assert isinstance(nouns, click.Group)
        typed = main.kebab(verb.replace(".", "-"))
        shown = {typed, f"remote-{typed}"} & set(nouns.list_commands(click.Context(nouns)))
        told = CliRunner().invoke(root, [group, max(shown, key=len), "--help"])
        assert told.exit_code == 0, name
        assert operation.summary.split()[0] in told.output


def test_a_new_token_is_shown_with_its_hash():
    made = json.loads(CliRunner().invoke(token.token, ["create", "--json"]).output)
    assert made["token"].startswith("biam_key_")
    assert made["sha256"] == sha256(made["token"].encode()).hexdigest()


def test_two_tokens_differ():
    first, second = (CliRunner().invoke(token.token, ["create"]).output for _ in range(2))
    assert first.startswith("token   biam_key_")
    assert first != second


def test_the_version_is_told_also_where_nothing_is_installed():
    shown = CliRunner().invoke(main.Root(registry=table), ["--version"])
    assert shown.exit_code == 0
    assert shown.output.startswith("better-compute ")
