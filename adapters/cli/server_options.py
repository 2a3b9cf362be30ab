"""Options of every command that asks a server, and which profile fills them.

A value typed stands over the environment, that over the profile, that over the default. A profile that is typed
stands over the environment. Its token goes to its own server alone, whatever else is said.
"""

from collections.abc import Iterator
from typing import Any, Final

import click
from click.core import ParameterSource

DEFAULT_SERVER: Final = "http://127.0.0.1:8080"
NAMED: Final = "adapters.cli.profile.name"
PROFILE: Final = "adapters.cli.profile"
"""Where a context keeps the name of a profile, if one was said, and the profile that it asks with."""


def asking(credential: str = "access token") -> Iterator[click.Option]:
    """The options, as `_server`, `_token` and `_json` of the command; the profile has filled them."""
    yield click.Option(
        ["_profile", "--profile"],
        envvar="BETTER_COMPUTE_PROFILE",
        show_envvar=True,
        is_eager=True,
        expose_value=False,
        callback=_profile,
        shell_complete=_complete_profile,
        help="server and token that are kept under this name",
    )
    yield click.Option(
        ["_server", "--server"],
        envvar="BETTER_COMPUTE_SERVER",
        default=DEFAULT_SERVER,
        show_default=True,
        show_envvar=True,
        is_eager=True,
        callback=_server,
        help="address of the server",
    )
    yield click.Option(
        ["_token", "--token"],
        envvar="BETTER_COMPUTE_TOKEN",
        show_envvar=True,
        callback=_token if credential == "access token" else None,
        help=credential,
    )
    yield click.Option(["_json", "--json"], is_flag=True, help="the answer as JSON, for programs")


def meant(ctx: click.Context) -> tuple[str, str | None]:
    """Server and token of a command line that is still being typed; ClickException where it is already wrong."""
    server, token = ctx.params.get("_server"), ctx.params.get("_token")
    if not isinstance(server, str):
        raise click.UsageError("no server is named that could be asked")
    return server, token if isinstance(token, str) else None


def example(*lines: str) -> str:
    """The end of a help: an example, as one copies it."""
    return "\b\nExample:\n  better-compute " + " \\\n      ".join(lines)


def _profile(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if name is not None:
        ctx.meta[NAMED] = name
        _of(ctx)
    return name


def _server(ctx: click.Context, param: click.Parameter, server: str) -> str:
    if _said(ctx, "_server"):
        return server
    return _of(ctx).server or server


def _token(ctx: click.Context, param: click.Parameter, token: str | None) -> str | None:
    if _said(ctx, "_token"):
        return token
    profile = _of(ctx)
    server = str(ctx.params["_server"])
    ours = (profile.server or DEFAULT_SERVER).rstrip("/") == server.rstrip("/")
    return profile.token if profile.token is not None and ours else token


def _said(ctx: click.Context, name: str) -> bool:
    """Whether it was typed, or is in the environment and no profile was typed."""
    source = ctx.get_parameter_source(name)
    typed = ctx.get_parameter_source("_profile") is ParameterSource.COMMANDLINE
    return source is ParameterSource.COMMANDLINE or (source is ParameterSource.ENVIRONMENT and not typed)


def _of(ctx: click.Context) -> Any:
    """The profile of a context, read once and only where something is left to it."""
    if PROFILE not in ctx.meta:
        from adapters.cli import profile_file

        profiles = profile_file.read()
        chosen = ctx.meta.get(NAMED) or profiles.current
        unset = profile_file.Profile(None, None)
        ctx.meta[PROFILE] = unset if chosen is None else profile_file.named(chosen, profiles)
    return ctx.meta[PROFILE]


def _complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from adapters.cli import profile

    return [CompletionItem(name) for name in profile.complete(ctx, param, incomplete)]
