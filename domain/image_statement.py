"""The statement that an Ed25519 signature of an image is over: what it is called, whose it is, and what its bytes are.

It is JSON in the canonical form of RFC 8785, without a line end, so that everybody writes the same bytes. Format and
purpose are in it, for the same bytes mean another disk under another format; visibility is not, for it changes nothing
of what the image is.
"""

from typing import Final

from domain import canonical

TYPE: Final = "better-compute/image-statement/v1"


def written(
    *, owner_tenant_id: str, name: str, version: str, format: str, purpose: str, sha256: str, size_bytes: int
) -> bytes:
    return canonical.encode(
        {
            "type": TYPE,
            "ownerTenantId": owner_tenant_id,
            "name": name,
            "version": version,
            "format": format,
            "purpose": purpose,
            "sha256": sha256,
            "sizeBytes": size_bytes,
        }
    )
