"""How an operator connects Better IAM, checked before anything is started."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_OWN_HEADER: Final = re.compile(r"[Xx]-[A-Za-z0-9-]{1,60}")
_TAKEN: Final = ("x-request-id", "x-better-iam")


class SettingsError(Exception):
    """A setting that cannot be; says which, and what would be right."""


class Connection(Struct, frozen=True, kw_only=True):
    """`url` has the base path, as `https://iam.example/api/iam`; `root_tenant` is the tenant of the platform itself.

    The files have one secret a line and are read again whenever they are needed, so that keys are rotated without a
    restart. Without a key file the tenant tree has to be in the log already, without a secret file no webhook is
    taken. With an audience, session JWTs that name it are read without asking, for reads; their issuer is the `url`
    unless it is named. `client_address_header` is what the host's `http.clientInfo` reads the client's address from.
    """

    url: str
    root_tenant: str
    service_key_file: Path | None = None
    webhook_secret_file: Path | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    client_address_header: str | None = None

    @property
    def issuer(self) -> str:
        return self.jwt_issuer or self.url.rstrip("/")


def check(connection: Connection) -> None:
    """Raises SettingsError for the first setting that cannot be."""
    try:
        url = urlsplit(connection.url)
        local = url.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        raise SettingsError("--iam-url is no URL") from None
    if not url.hostname or (url.scheme != "https" and not (url.scheme == "http" and local)):
        raise SettingsError("--iam-url begins with https:// (http:// to this machine alone): it carries tokens")
    if url.username or url.password or url.query or url.fragment:
        raise SettingsError("--iam-url is an address and its path, with no user, query or fragment")
    if not 0 < len(connection.root_tenant) <= 256 or not connection.root_tenant.isprintable():
        raise SettingsError("--iam-root-tenant is the id of a tenant")
    header = connection.client_address_header
    if header is not None and (not _OWN_HEADER.fullmatch(header) or header.lower().startswith(_TAKEN)):
        raise SettingsError("--iam-client-address-header is a header of your own, such as X-Compute-Client-Address")
    for option, file in (
        ("--iam-service-key-file", connection.service_key_file),
        ("--iam-webhook-secret-file", connection.webhook_secret_file),
    ):
        if file is not None and not lines(file, option):
            raise SettingsError(f"{option} {file} is empty: it has one secret a line")


def lines(file: Path | None, option: str = "") -> Sequence[str]:
    """The secrets in a file; empty lines and those that begin with a # say nothing."""
    if file is None:
        return ()
    try:
        read = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        if not option:
            raise
        raise SettingsError(f"{option} {file} cannot be read: {problem}") from problem
    return [line for line in read if line and not line.startswith("#")]
