"""`better-compute images`: from a file to an image that may start instances, and the statement that is signed."""

import base64
import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import quote

import click

from adapters.cli import client, server_options, showing, tables, uploading
from domain import image

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    Key = Ed25519PrivateKey | EllipticCurvePrivateKey

KEY_HELP: Final = "private key in PEM, not encrypted: Ed25519, or ECDSA on P-256"
_ADDING: Final = server_options.example(
    "images add ubuntu.qcow2 --name ubuntu --image-version 24.04", "--sign-with release.pem"
)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def images() -> None:
    """What instances start from: add a file, or register, sign and upload; retire."""


@images.command(
    params=[*server_options.asking()],
    epilog=server_options.example(
        "images add ubuntu.qcow2 --name ubuntu --image-version 24.04", "--sign-with release.pem"
    ),
)
@click.argument("file", type=_FILE)
@click.option("--name", required=True, help="with the version, its permanent name")
@click.option("--image-version", required=True, help="of the name, as 24.04")
@click.option("--format", "format_", type=click.Choice(get_args(image.Format)), help="default: by the file's name")
@click.option("--purpose", type=click.Choice(get_args(image.Purpose)), default="os", show_default=True)
@click.option("--visibility", type=click.Choice(get_args(image.Visibility)), default="private", show_default=True)
@click.option("--sign-with", type=_FILE, help=KEY_HELP)
def add(file: Path, sign_with: Path | None, _server: str, _token: str | None, _json: bool, **said: str) -> None:
    """Register FILE as an image, sign it if you give a key, and upload it.

    Run again after an interruption, it continues with the same image.
    """
    said["format"] = said.pop("format_") or _format(file)
    key = None if sign_with is None else _key(sign_with)  # before a name and version are taken for ever
    api = client.Client(_server, _token)
    digest, size = uploading.digest(file)
    wanted = {"sha256": digest, "sizeBytes": size} | {_camel(name): value for name, value in said.items()}
    once = {"Idempotency-Key": "add-" + sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:32]}
    answer = api.send("POST", "/v1/images", body=wanted, headers=once).thing
    id = str(answer["id"])
    click.echo(f"{tables.printable(id)}: registered, sha256 {digest}", err=True)
    if key is not None:
        _vouch(api, answer | {"sha256": digest, "sizeBytes": size}, key)
    answer = uploading.upload(api, "PUT", f"{_path(id)}/content", file).thing
    showing.show_record(answer, as_json=_json)


@images.command(params=[*server_options.asking()], epilog=server_options.example("images statement img_… > statement"))
@click.argument("id")
def statement(id: str, _server: str, _token: str | None, _json: bool) -> None:
    """Print the bytes to sign with an Ed25519 key that is on another machine."""
    found = client.Client(_server, _token).send("GET", _path(id)).thing
    sys.stdout.buffer.write(_statement(found))
    sys.stdout.buffer.flush()


@images.command(params=[*server_options.asking()], epilog=server_options.example("images vouch img_… release.pem"))
@click.argument("id")
@click.argument("key", type=_FILE)
def vouch(id: str, key: Path, _server: str, _token: str | None, _json: bool) -> None:
    """Sign an image with the private key in the file KEY, and send the signature.

    The key stays here. With Ed25519 it signs the image's statement, with ECDSA on P-256 the digest of its bytes.
    """
    loaded, api = _key(key), client.Client(_server, _token)
    showing.show_record(_vouch(api, api.send("GET", _path(id)).thing, loaded), as_json=_json)


def _vouch(api: client.Client, found: dict[str, Any], key: "Key") -> dict[str, Any]:
    signature = base64.b64encode(_signature(found, key)).decode()
    answer: dict[str, Any] = api.send("POST", f"{_path(found['id'])}/signatures", body={"signature": signature}).thing
    signers = ", ".join(str(verdict["signer"]) for verdict in answer["verdicts"])
    click.echo(f"{tables.printable(str(found['id']))}: signed by {tables.printable(signers)}", err=True)
    return answer


def _key(path: Path) -> "Key":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as wrong:
        raise click.ClickException(f"{path} is no {KEY_HELP}: {wrong}") from None
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise click.ClickException(f"{path} is no {KEY_HELP}")


def _signature(found: dict[str, Any], key: "Key") -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA256

    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(_statement(found))
    return key.sign(bytes.fromhex(found["sha256"]), ec.ECDSA(Prehashed(SHA256())))


def _statement(found: dict[str, Any]) -> bytes:
    from domain import image_statement

    return image_statement.written(
        owner_tenant_id=found["ownerTenantId"],
        name=found["name"],
        version=found["imageVersion"],
        format=found["format"],
        purpose=found["purpose"],
        sha256=found["sha256"],
        size_bytes=found["sizeBytes"],
    )


def _path(id: str) -> str:
    if id in ("", ".", ".."):
        raise click.UsageError(f"{id!r} is no id")
    return f"/v1/images/{quote(id, safe='')}"


def _format(file: Path) -> str:
    """By its name: what the bytes are the server looks at."""
    known = {".qcow2": "qcow2", ".iso": "iso", ".raw": "raw", ".img": "raw"}
    try:
        return known[file.suffix.lower()]
    except KeyError:
        raise click.UsageError(f"{file.name} does not say its format; add --format") from None


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
