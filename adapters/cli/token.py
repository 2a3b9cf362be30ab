"""`better-compute token`: access tokens for the embedded directory, which keeps only their hash."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adapters.cli import access, tables

if TYPE_CHECKING:
    from adapters.iam.access_edit import Held
    from adapters.iam.access_file import AccessFile

_COLUMNS = ("identity", "tenant", "kind", "delegation", "sha256", "sessionId")


@click.group()
def token() -> None:
    """Create access tokens, list and revoke them."""


@token.command()
@click.option("--identity", help="whose token it is; the hash goes into the access file")
@click.option("--delegation", help="a delegation, likewise")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@access.options
def create(
    identity: str | None, delegation: str | None, as_json: bool, access_file: Path | None, data_dir: Path | None
) -> None:
    """Create a token; show it once, with its hash.

    Give the token to its holder; only the SHA-256 goes into the access file. Without --identity or --delegation
    you put it there yourself.
    """
    from adapters.iam import tokens

    if identity is not None and delegation is not None:
        raise click.UsageError("a token is an identity's or a delegation's: give one of them")
    made = tokens.mint("key" if delegation is None else "dlg")
    shown = {"token": made, "sha256": tokens.digest(made)}
    holder = identity if delegation is None else delegation
    if holder is not None:
        from adapters.iam import access_edit

        section = "identities" if delegation is None else "delegations"
        path = access.path(access_file, data_dir)
        _edit(lambda: access_edit.add(path, section, holder, shown["sha256"], access.actions()))
    click.echo(json.dumps(shown) if as_json else tables.record(shown))


@token.command(name="list")
@click.option("--identity", help="of this identity alone")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@access.options
def list_(identity: str | None, as_json: bool, access_file: Path | None, data_dir: Path | None) -> None:
    """List the tokens of the access file by the beginning of their hash; the tokens themselves are not stored.

    The log names what was done with a token by its session id.
    """
    from adapters.iam import access_edit

    path = access.path(access_file, data_dir)
    file = _edit(lambda: access_edit.read(path, access.actions()))
    rows = [one.shown for one in access_edit.held(file) if identity is None or one.identity == identity]
    click.echo(json.dumps(rows) if as_json else tables.table(rows, _COLUMNS, None) if rows else "no tokens")


@token.command()
@click.argument("hash_prefix", required=False)
@click.option("--identity", help="also all delegations from it and to it")
@access.options
def revoke(hash_prefix: str | None, identity: str | None, access_file: Path | None, data_dir: Path | None) -> None:
    """Revoke the token whose hash begins with HASH_PREFIX, or those of an identity.

    A running server takes it up within two seconds; from then on the token is invalid.
    """
    from adapters.iam import access_edit

    if (hash_prefix is None) == (identity is None):
        raise click.UsageError("give the beginning of a token's hash, or --identity")
    path = access.path(access_file, data_dir)

    def chosen(file: "AccessFile") -> "tuple[Held, ...]":
        if identity is not None:
            return access_edit.of_identity(file, identity)
        return (access_edit.by_prefix(file, hash_prefix or ""),)

    gone: tuple[Held, ...] = _edit(lambda: access_edit.revoke(path, chosen, access.actions()))
    for one in gone:
        of = f" under {one.delegation}" if one.delegation else ""
        click.echo(f"revoked {one.sha256[: access_edit.SHOWN]} of {one.identity}{of}")


def _edit(change: Callable[[], Any]) -> Any:
    from adapters.iam import access_edit

    try:
        return change()
    except access_edit.EditError as problem:
        click.echo(f"error: {problem}", err=True)
        sys.exit(1)


@token.command()
@click.argument("identity")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="BETTER_COMPUTE_DATA_DIR",
    help="where the demo keeps its data",
)
def demo(identity: str, data_dir: Path | None) -> None:
    """Print the token of an IDENTITY of `serve --demo`: root, operator, auditor, acme, acme-user, globex, globex-user.

    For scripts and tours: export BETTER_COMPUTE_TOKEN=$(better-compute token demo acme)
    """
    from adapters.postgres import embedded_account, embedded_directory

    kept = embedded_directory.locate(data_dir, embedded_account.for_server()).home / "demo-tokens.json"
    if not kept.exists():
        raise click.ClickException(f"there is no {kept}: start `serve --demo` first, or name its --data-dir")
    tokens = json.loads(kept.read_text())
    if identity not in tokens:
        raise click.ClickException(f"the demo has no {identity!r}, only {', '.join(tokens)}")
    click.echo(tokens[identity])
