"""A file becomes an image by one command; keys stay where they are."""

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from canned import PROBLEM, Server, serving
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from adapters.cli import client, main, troubles

BYTES = b"a small disk" * 200_000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    file = tmp_path / "small.raw"
    file.write_bytes(BYTES)
    return file


def run(line: list[Any], server: Server) -> Result:
    environment = {"BETTER_COMPUTE_SERVER": server.address, "BETTER_COMPUTE_TOKEN": "biam_key_secret"}
    return CliRunner().invoke(main.Root(), ["images", *map(str, line)], env=environment)


def view(**fields: Any) -> dict[str, Any]:
    known = {"id": "img_1", "ownerTenantId": "acme", "name": "small", "imageVersion": "1", "format": "raw"}
    known |= {"purpose": "os", "sha256": sha256(BYTES).hexdigest(), "sizeBytes": len(BYTES)}
    return known | {"state": "registered", "verdicts": []} | fields


STATEMENT = (
    '{"format":"raw","name":"small","ownerTenantId":"acme","purpose":"os",'
    f'"sha256":"{sha256(BYTES).hexdigest()}","sizeBytes":{len(BYTES)},'
    '"type":"better-compute/image-statement/v1","version":"1"}'
).encode()


def private(tmp_path: Path, key: Any) -> Path:
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


def test_add_registers_signs_and_uploads(server: Server, disk: Path, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    verdicts = [{"signer": "build"}]
    server.says(view(), status=201).says(view(verdicts=verdicts)).says(view(state="stored"))
    ran = run(
        ["add", disk, "--name", "small", "--image-version", "1", "--sign-with", private(tmp_path, key), "--json"],
        server,
    )
    assert (ran.exit_code, json.loads(ran.stdout)["state"]) == (0, "stored"), ran.output
    created, signed, sent = server.asked
    assert created.body == {
        "sha256": sha256(BYTES).hexdigest(),
        "sizeBytes": len(BYTES),
        "name": "small",
        "imageVersion": "1",
        "format": "raw",
        "purpose": "os",
        "visibility": "private",
    }
    key.public_key().verify(base64.b64decode(signed.body["signature"]), STATEMENT)
    assert (sent.verb, sent.path, sent.body) == ("PUT", "/v1/images/img_1/content", BYTES)
    assert sent.headers["Content-Length"] == str(len(BYTES))
    assert "biam" not in ran.output


def test_add_again_asks_with_the_same_key(server: Server, disk: Path) -> None:
    server.says(view(), status=201).says(PROBLEM, status=503).says(view(), status=201).says(view(state="stored"))
    line = ["add", disk, "--name", "small", "--image-version", "1"]
    assert [run(line, server).exit_code for _ in range(2)] == [3, 0]
    first, _, second, _ = server.asked
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_a_format_that_the_name_does_not_say_is_asked_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"x")
    ran = run(["add", tmp_path / "disk", "--name", "small", "--image-version", "1"], server)
    assert (ran.exit_code, server.asked) == (2, [])
    assert "add --format" in ran.stderr
    assert "does not exist" in run(["add", tmp_path / "none", "--name", "a", "--image-version", "1"], server).stderr


def test_the_statement_is_printed_byte_for_byte(server: Server) -> None:
    server.says(view())
    assert run(["statement", "img_1"], server).stdout_bytes == STATEMENT


def test_vouch_signs_the_digest_with_a_key_on_p_256(server: Server, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    server.says(view()).says(view(verdicts=[{"signer": "build"}]))
    assert run(["vouch", "img_1", private(tmp_path, key)], server).exit_code == 0
    signature = base64.b64decode(server.asked[1].body["signature"])
    key.public_key().verify(signature, BYTES, ec.ECDSA(SHA256()))


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_private_key_is_refused_before_anything_is_sent(
    server: Server, disk: Path, tmp_path: Path, content: bytes
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(content)
    add = ["add", disk, "--name", "small", "--image-version", "1", "--sign-with", key]
    for line in (["vouch", "img_1", key], add):
        ran = run(line, server)
        assert (ran.exit_code, server.asked) == (1, []), "add takes a name and version for ever"
        assert "key.pem is no private key" in ran.stderr


def test_a_refusal_in_the_middle_of_an_upload_is_read() -> None:
    """The server answers after the headers and hangs up, while gigabytes are still to come."""
    with refusing() as address:
        pieces = iter([b"x" * 2**20] * 64)
        with pytest.raises(troubles.Refused, match="it is gone"):
            client.Client(address, None).send("PUT", "/", content=client.Content(64 * 2**20, pieces))


@contextmanager
def refusing() -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            body = json.dumps(PROBLEM).encode()
            head = f"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}"
            connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)

    thread = Thread(target=answer)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join()
    listening.close()


def test_upload_sends_a_file_as_it_is(server: Server, disk: Path) -> None:
    server.says(view(state="stored"))
    assert run(["upload", "img_1", disk, "--if-match", "3", "--json"], server).exit_code == 0
    (sent,) = server.asked
    assert (sent.path, sent.body, sent.headers["If-Match"]) == ("/v1/images/img_1/content", BYTES, '"3"')


def test_what_cannot_be_read_is_not_sent(server: Server, tmp_path: Path) -> None:
    ran = run(["upload", "img_1", tmp_path / "none"], server)
    assert (ran.exit_code, ran.stderr) == (1, f"Error: {tmp_path / 'none'} cannot be read: No such file or directory\n")
    assert server.asked == []
