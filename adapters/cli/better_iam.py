"""Where `serve` finds a Better IAM: its flags, and what must go together."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from adapters.settings import Settings

if TYPE_CHECKING:
    from adapters.iam.better.connection import Connection

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("url", str, "a Better IAM that decides instead of an access file, with its path: https://iam.example/api/iam"),
    ("root-tenant", str, "id of Better IAM's root tenant, the platform; required with --iam-url"),
    ("service-key-file", _FILE, "API keys that read the tenant tree, one a line; one of the root tenant is needed"),
    ("webhook-secret-file", _FILE, "secrets of its webhooks, one a line; without it webhooks are refused"),
    ("jwt-audience", str, "read session JWTs for this audience without asking, for reads"),
    ("jwt-issuer", str, "required issuer of the JWTs; default --iam-url"),
    ("client-address-header", str, "header in which Better IAM is told the client's address, for its http.clientInfo"),
)


def options(command: F) -> F:
    """Add the flags of a Better IAM."""
    for name, kind, said in reversed(_FLAGS):
        variable = "BETTER_COMPUTE_IAM_" + name.upper().replace("-", "_")
        command = click.option(f"--iam-{name}", type=kind, envvar=variable, help=said)(command)
    return command


def connection(settings: Settings) -> "Connection | None":
    """The Better IAM that was named, checked; None where an access file decides."""
    from adapters.iam.better import connection

    flags = {f"--iam-{name}": getattr(settings, "iam_" + name.replace("-", "_")) for name, _, _ in _FLAGS}
    if settings.iam_url is None:
        if given := [flag for flag, value in flags.items() if value is not None]:
            raise click.UsageError(f"{given[0]} needs --iam-url")
        return None
    if settings.iam_root_tenant is None:
        raise click.UsageError("--iam-url needs --iam-root-tenant: which tenant is the platform itself")
    for flag, taken in (("--access-file", settings.access_file is not None), ("--demo", settings.demo)):
        if taken:
            raise click.UsageError(f"with --iam-url Better IAM decides: leave out {flag}")
    found = connection.Connection(
        url=settings.iam_url,
        root_tenant=settings.iam_root_tenant,
        service_key_file=settings.iam_service_key_file,
        webhook_secret_file=settings.iam_webhook_secret_file,
        jwt_audience=settings.iam_jwt_audience,
        jwt_issuer=settings.iam_jwt_issuer,
        client_address_header=settings.iam_client_address_header,
    )
    try:
        connection.check(found)
    except connection.SettingsError as problem:
        raise click.UsageError(str(problem)) from problem
    return found
