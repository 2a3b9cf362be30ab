"""`better-compute profile`: servers and tokens under names, so that no command line and no history holds a token."""

import json
import sys
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import click

from adapters.cli import profile_file, server_options, tables

SHOWN: Final = 4
"""Last letters of a token that tell two of them apart."""


def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names that begin so; of a file that may not be read none."""
    try:
        return [name for name in sorted(profile_file.read().by_name) if name.startswith(incomplete)]
    except profile_file.ProfileError:
        return []


def _name(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("name", shell_complete=complete)(command)


@click.group()
def profile() -> None:
    """Servers and tokens under names: set, list, use, show, remove.

    They are kept in ~/.config/better-compute/config.toml (under XDG_CONFIG_HOME where it is set, or in the file that
    BETTER_COMPUTE_CONFIG names), which nobody but you may read. Commands that ask a server take the profile named
    by --profile or BETTER_COMPUTE_PROFILE, else the one in use. --server and --token override the environment's
    BETTER_COMPUTE_SERVER and BETTER_COMPUTE_TOKEN, which override the profile; a profile named by --profile overrides
    the environment. Its token goes to its own server only.
    """


@profile.command(name="set", epilog=server_options.example("profile set demo --server http://127.0.0.1:8080"))
@_name
@click.option("--server", help="its address; if left out, an existing profile keeps its own")
@click.option("--no-token", is_flag=True, help="do not ask for a token; an existing one stays")
def set_(name: str, server: str | None, no_token: bool) -> None:
    """Create or change a profile; its token is asked for without echo, or read from standard input.

    The first one made is in use at once.
    """
    if not name or not name.isprintable() or name != name.strip():
        raise click.UsageError("a profile's name is printable text")
    if server is not None:
        _check(server)
    token = None if no_token else _token()

    def edit(document: Any) -> None:
        import tomlkit

        profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        entry = profiles.setdefault(name, tomlkit.table())
        given = {"server": server, "token": token}
        entry.update({key: value for key, value in given.items() if value is not None})
        if len(profiles) == 1 and "current" not in document:
            _use(document, name)

    profile_file.change(edit)
    click.echo(f"profile {name} is in {profile_file.path()}", err=True)


@profile.command(name="list", epilog=server_options.example("profile list"))
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
def list_(as_json: bool) -> None:
    """List the profiles, the one in use first with a mark."""
    profiles = profile_file.read()
    rows = [_shown(name, profiles) for name in sorted(profiles.by_name)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        columns = ("name", "current", "server", "token")
        click.echo(tables.table(rows, columns, None) if rows else "no profiles; `better-compute profile set` makes one")


@profile.command(epilog=server_options.example("profile use demo"))
@_name
def use(name: str) -> None:
    """Use this profile when none is named."""
    profile_file.named(name, profile_file.read())
    profile_file.change(lambda document: _use(document, name))


@profile.command(epilog=server_options.example("profile show demo"))
@click.argument("name", required=False, shell_complete=complete)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
def show(name: str | None, as_json: bool) -> None:
    """Show a profile, or the one in use; of its token only the end."""
    profiles = profile_file.read()
    chosen = name or profiles.current
    if chosen is None:
        raise click.UsageError("no profile is in use; name one, or `better-compute profile use` one")
    profile_file.named(chosen, profiles)
    shown = _shown(chosen, profiles)
    click.echo(json.dumps(shown, indent=2) if as_json else tables.record(shown))


@profile.command(epilog=server_options.example("profile remove demo"))
@_name
def remove(name: str) -> None:
    """Remove a profile and its token."""
    profile_file.named(name, profile_file.read())

    def edit(document: Any) -> None:
        del document["profiles"][name]
        if document.get("current") == name:
            del document["current"]

    profile_file.change(edit)


def _use(document: Any, name: str) -> None:
    import tomlkit

    if "current" in document or not document:
        document["current"] = name
        return
    body = tomlkit.dumps(document)
    document.clear()
    document["current"] = name
    document.update(tomlkit.parse(body))


def _shown(name: str, profiles: profile_file.Profiles) -> dict[str, Any]:
    server, token = profiles.by_name[name]
    end = None if token is None else "…" + token[-SHOWN:] if len(token) > SHOWN * 4 else "…"
    return {"name": name, "current": name == profiles.current, "server": server, "token": end}


def _token() -> str:
    """From a person without echo, from a program what standard input holds."""
    token = click.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(8192)
    token = token.strip()
    if not token:
        raise click.UsageError("no token came by standard input; --no-token sets a profile without one")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise click.UsageError("what came by standard input is no token")
    return str(token)


def _check(server: str) -> None:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("--server is an address such as http://127.0.0.1:8080")
    if parts.username is not None or parts.password is not None:
        raise click.UsageError("--server holds a credential; the token is asked for")
