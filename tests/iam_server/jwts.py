"""Session JWTs as Better IAM issues them, and the keys that it publishes (iam.md §13)."""

import json
import time
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey

from adapters.iam.better.session_jwt import JWKS, JWKS_TYPE, TYPE
from iam_server.http import Server


class Issuer:
    """Signs with the key of a kid; `publish` is what the server tells of them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.keys: dict[str, tuple[str, Any]] = {}
        self.fetched = 0
        self.add("ed-1", "EdDSA")
        self.add("es-1", "ES256")
        self.publish()

    def add(self, kid: str, algorithm: str) -> None:
        key = OKPKey.generate_key("Ed25519") if algorithm == "EdDSA" else ECKey.generate_key("P-256")
        self.keys[kid] = (algorithm, key)

    def public(self, kid: str, /, **more: Any) -> dict[str, Any]:
        algorithm, key = self.keys[kid]
        return {**key.as_dict(private=False), "kid": kid, "alg": algorithm, "use": "sig", **more}

    def publish(self, *keys: dict[str, Any], media_type: str = JWKS_TYPE) -> None:
        shown = list(keys) or [self.public(kid) for kid in self.keys]
        self.server.documents[JWKS] = (media_type, json.dumps({"keys": shown}).encode())

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        said = {
            "iss": self.server.url,
            "aud": "better-compute",
            "sub": "alice",
            "tid": "acme",
            "sid": "ses_1",
            "jti": "ses_1",
            "iat": now,
            "nbf": now,
            "exp": now + 900,
            "auth_time": now,
            "kind": "role",
            "mfa": False,
            "role": "role_1",
            "trust": "trust_1",
        } | more
        return {name: value for name, value in said.items() if value is not ...}

    def token(self, kid: str = "ed-1", header: dict[str, Any] | None = None, **claims: Any) -> str:
        return self.signed(kid, json.dumps(self.claims(**claims)).encode(), header)

    def signed(self, kid: str, payload: bytes, header: dict[str, Any] | None = None) -> str:
        algorithm, key = self.keys[kid]
        protected = {"alg": algorithm, "kid": kid, "typ": TYPE} | (header or {})
        shown = {name: value for name, value in protected.items() if value is not ...}
        return jws.serialize_compact(shown, payload, key, algorithms=[shown["alg"]])
