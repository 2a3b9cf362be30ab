"""The bridge of an IAM host: it asks the plane what a thing is, with a key that they share (iam.md §8)."""

from collections.abc import Callable
from typing import Any

import httpx

from iam_server.model import IamError, Resolver

SECONDS = 5.0


def over_http(url: Callable[[], str], key: str) -> Resolver:
    """`url` is the plane's, once it is known."""
    http = httpx.Client(timeout=SECONDS, trust_env=False, headers={"authorization": f"Bearer {key}"})

    def resolve(tenant_id: str, type: str, id: str) -> dict[str, Any] | None:
        try:
            answer = http.post(f"{url()}/v1/iam/resolve", json={"tenantId": tenant_id, "type": type, "id": id})
        except httpx.HTTPError:
            raise IamError("INTERNAL_ERROR", 500) from None
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise IamError("INTERNAL_ERROR", 500)
        found: dict[str, Any] = answer.json()
        return found

    return resolve
