"""`better-compute image-signers allow` and `disallow`: the allowlist is set whole; these change one line of it."""

from pathlib import Path
from typing import Any

import click

from adapters.cli import client, server_options, showing, troubles

_PATH = "/v1/image-signers"


@click.group(name="image-signers")
def signers() -> None:
    """Whose signatures make images verified."""


@signers.command(
    params=[*server_options.asking()],
    epilog=server_options.example("image-signers allow release release.pub.pem"),
)
@click.argument("name")
@click.argument("public_key", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def allow(name: str, public_key: Path, _server: str, _token: str | None, _json: bool) -> None:
    """Let the key in the file PUBLIC_KEY (PEM) vouch for images, under NAME."""
    try:
        pem = public_key.read_text()
    except (OSError, UnicodeError) as wrong:
        raise click.ClickException(f"{public_key} cannot be read: {wrong}") from None
    if "PRIVATE KEY" in pem:
        raise click.ClickException(f"{public_key} is a private key, which goes nowhere; name the public one")
    api = client.Client(_server, _token)
    there = api.send("GET", _PATH).thing
    _set(api, there, [*there["signers"], {"name": name, "publicKey": pem}], as_json=_json)


@signers.command(params=[*server_options.asking()], epilog=server_options.example("image-signers disallow 9f86d081…"))
@click.argument("key_id")
def disallow(key_id: str, _server: str, _token: str | None, _json: bool) -> None:
    """Take a key off the list: what it alone vouched for starts nothing new. `image-signers get` shows KEY_ID."""
    api = client.Client(_server, _token)
    there = api.send("GET", _PATH).thing
    kept = [signer for signer in there["signers"] if signer["keyId"] != key_id.lower()]
    if len(kept) == len(there["signers"]):
        raise troubles.Refused(f"{key_id} is on no line of the list")
    _set(api, there, kept, as_json=_json)


def _set(api: client.Client, there: dict[str, Any], signers: list[dict[str, Any]], *, as_json: bool) -> None:
    """If nobody else changed the list meanwhile."""
    given = [{"name": signer["name"], "publicKey": signer["publicKey"]} for signer in signers]
    match = {"If-Match": f'"{there["version"]}"'}
    showing.show_record(api.send("PUT", _PATH, body={"signers": given}, headers=match).thing, as_json=as_json)
