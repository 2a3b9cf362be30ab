"""What a signer prints by hand (docs/how-to/sign-images.md) is the canonical statement."""

import hashlib

from domain import canonical, image_statement


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
