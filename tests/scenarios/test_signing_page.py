"""What docs/how-to/sign-images.md tells a signer to do makes signatures that are taken."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from domain import canonical, image_statement
from given import Plane

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sign-images.md"
FOUND = [name for name in ("openssl", "sha256sum", "base64") if shutil.which(name)]
pytestmark = pytest.mark.skipif(len(FOUND) < 3, reason=f"openssl and coreutils are not all here, only {FOUND}")


def test_the_commands_of_the_page_make_good_signatures(plane: Plane, tmp_path: Path) -> None:
    content = bytes(range(256)) * 8
    (tmp_path / "disk.img").write_bytes(content)
    told = {"FILE": "disk.img", "FORMAT": "raw", "NAME": "tiny", "TENANT": "acme", "VERSION": "24.04_1+b"}
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL):
        ran = ["bash", "-euo", "pipefail", "-c", block]
        subprocess.run(ran, cwd=tmp_path, env=os.environ | told, check=True, capture_output=True)
    image_id = plane.registered(plane.acme, content, imageVersion=told["VERSION"])
    assert plane.acme.ok("GET", f"/v1/images/{image_id}")["statement"] == (tmp_path / "statement").read_text()
    keys = [{"name": name, "publicKey": (tmp_path / f"{name}.pub").read_text()} for name in ("signer", "cosign")]
    plane.root.ok("PUT", "/v1/image-signers", {"signers": keys})
    for name in ("signature", "cosigned"):
        shown = plane.acme.ok("POST", f"/v1/images/{image_id}/signatures", {"signature": (tmp_path / name).read_text()})
    assert [(one["signer"], one["scheme"]) for one in shown["verdicts"]] == [
        ("signer", "ed25519"),
        ("cosign", "ecdsa-p256"),
    ]


def test_the_statement_is_canonical_whatever_the_owner_is_called() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    said = image_statement.written(
        owner_tenant_id='a"\\b', name="n", version="1", format="iso", purpose="os", sha256=digest, size_bytes=2**44
    )
    assert said == canonical.written(
        {
            "format": "iso",
            "name": "n",
            "ownerTenantId": 'a"\\b',
            "purpose": "os",
            "sha256": digest,
            "sizeBytes": 2**44,
            "type": "better-compute/image-statement/v1",
            "version": "1",
        }
    )
    assert b'"ownerTenantId":"a\\"\\\\b"' in said
