"""Webhooks as Better IAM sends them (iam.md §18)."""

import hmac
import itertools
import json
import time
from hashlib import sha256
from typing import Any

_ids = itertools.count(1)


def event(type: str, tenant: str = "platform", **more: Any) -> dict[str, Any]:
    """A delivery's body."""
    return {
        "id": f"aud_{next(_ids)}",
        "type": type,
        "tenantId": tenant,
        "actorId": "usr_1",
        "resourceId": tenant,
        "outcome": "allow",
        "timestamp": int(time.time() * 1000),
    } | more


def delivery(body: dict[str, Any], secret: str, at: float | None = None) -> tuple[bytes, dict[str, str]]:
    """The bytes and headers that deliver it now, or at another time."""
    raw = json.dumps(body).encode()
    timestamp = str(int(time.time() if at is None else at))
    signature = hmac.new(secret.encode(), timestamp.encode() + b"." + raw, sha256).hexdigest()
    return raw, {
        "content-type": "application/json",
        "user-agent": "better-iam-webhooks/1",
        "x-better-iam-event": str(body.get("type", "")),
        "x-better-iam-delivery": f"out_{next(_ids)}",
        "x-better-iam-webhook": "whk_1",
        "x-better-iam-timestamp": timestamp,
        "x-better-iam-signature": f"v1={signature}",
    }
