"""`better-compute token`: access tokens for the embedded directory, which keeps only their hash."""

import json

import click

from adapters.cli import tables


@click.group()
def token() -> None:
    """Make access tokens."""


@token.command()
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
def create(as_json: bool) -> None:
    """Make a token; show it once, with its hash.

    Give the token to its holder; only the SHA-256 goes into the access file.
    """
    from adapters.iam import tokens

    made = tokens.mint()
    shown = {"token": made, "sha256": tokens.digest(made)}
    click.echo(json.dumps(shown) if as_json else tables.record(shown))
