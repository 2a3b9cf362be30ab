"""Session JWTs read without asking, for reads alone: whether one was revoked, only Better IAM knows (iam.md §13)."""

import logging
import re
import threading
import time
import warnings
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey
from msgspec import Meta, Struct

from adapters.iam.better.answers import Failed
from adapters.iam.better.client import Client
from adapters.iam.better.identity import Id, TenantId
from domain import errors
from domain.access import Credential, Session

log = logging.getLogger(__name__)

MAX_TOKEN: Final = 4096
TYPE: Final = "biam-session+jwt"
TOLERANCE_S: Final = 5
MAX_LIFE_S: Final = 43_200
JWKS: Final = ".well-known/jwks.json"
JWKS_TYPE: Final = "application/jwk-set+json"
KEPT_S: Final = 600.0
AGAIN_S: Final = 30.0
"""Between two looks for a key that is not known."""
MOST_KEYS: Final = 100

_SEGMENTS: Final = re.compile(r"([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})")
_KID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CURVES: Final[Mapping[str, tuple[str, str]]] = {"EdDSA": ("OKP", "Ed25519"), "ES256": ("EC", "P-256")}
_SECONDS = Annotated[float, Meta(ge=0, le=1e11)]
_URI = Annotated[str, Meta(min_length=1, max_length=2048)]
_SAID = Annotated[str, Meta(min_length=1, max_length=1024)]

warnings.filterwarnings("ignore", message="EdDSA is deprecated", module="joserfc")


class NotTaken(Exception):
    """Why a token is none that can be relied on; for logs, not for whoever sent it."""


class _Header(Struct, frozen=True):
    alg: str
    kid: str
    typ: str
    crit: msgspec.Raw | None = None


class Claims(Struct, frozen=True):
    """What every session JWT says; what nobody here knows is dropped. Instants are epoch seconds."""

    iss: _URI
    aud: _URI | Annotated[list[_URI], Meta(min_length=1)]
    sub: Id
    tid: TenantId
    sid: Id
    jti: Id
    iat: _SECONDS
    nbf: _SECONDS
    exp: _SECONDS
    auth_time: _SECONDS
    kind: Literal["role", "session-token"]
    mfa: bool
    role: _SAID | None = None
    trust: _SAID | None = None
    src_tid: _SAID | None = None
    session_name: _SAID | None = None
    source_identity: _SAID | None = None
    idp: _SAID | None = None
    idp_sub: _SAID | None = None


Key = OKPKey | ECKey
Keys = Mapping[str, tuple[str, Key]]
"""Of each kid its algorithm and key."""


class KeySet:
    """The issuer's public keys, kept for ten minutes; an unknown kid is a reason to look again, not often."""

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._keys: Keys = {}
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def key(self, kid: str) -> tuple[str, Key]:
        with self._lock:
            now = self._monotonic()
            stale = now - self._read_at >= KEPT_S
            if (stale or kid not in self._keys) and now - self._tried_at >= AGAIN_S:
                self._tried_at = now
                self._keys, self._read_at = self._fetched(), now
            elif stale:
                raise NotTaken("jwks")
            if kid not in self._keys:
                raise NotTaken("unknown-key")
            return self._keys[kid]

    def forget(self) -> None:
        """The next token finds the keys as they are by then."""
        with self._lock:
            self._read_at = self._tried_at = float("-inf")

    def _fetched(self) -> Keys:
        try:
            body, media_type = self._client.get(JWKS)
            if media_type.partition(";")[0].strip() not in (JWKS_TYPE, "application/json"):
                raise NotTaken("jwks")
            found: list[dict[str, Any]] = msgspec.json.decode(body, type=dict[str, list[dict[str, Any]]])["keys"]
        except (Failed, errors.Unavailable, msgspec.MsgspecError, KeyError, RecursionError):
            raise NotTaken("jwks") from None
        if len(found) > MOST_KEYS:
            raise NotTaken("jwks")
        return dict(_known(found))


def _known(found: list[dict[str, Any]]) -> list[tuple[str, tuple[str, Key]]]:
    """Those keys that session JWTs are signed with; a kid that two keys share is neither's."""
    named = [jwk.get("kid") for jwk in found]
    keys: list[tuple[str, tuple[str, Key]]] = []
    for jwk in found:
        kid, algorithm = jwk.get("kid"), jwk.get("alg")
        if not isinstance(kid, str) or not _KID.fullmatch(kid) or named.count(kid) > 1 or "d" in jwk:
            continue
        if not isinstance(algorithm, str) or algorithm not in _CURVES or jwk.get("use") != "sig":
            continue
        try:
            if (jwk.get("kty"), jwk.get("crv")) == _CURVES[algorithm]:
                key = OKPKey.import_key(jwk) if algorithm == "EdDSA" else ECKey.import_key(jwk)
                keys.append((kid, (algorithm, key)))
        except (JoseError, ValueError, TypeError):
            log.warning("the key %s of the JWKS is not well formed", kid)
    return keys


class SessionJwts:
    """Sessions that their token alone proves. `issuer` is exact, one of `audiences` must be named."""

    def __init__(
        self,
        keys: KeySet,
        issuer: str,
        audiences: frozenset[str],
        root_tenant: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audiences = audiences
        self._root_tenant = root_tenant
        self._clock = clock
        self._distrusted_ms = 0

    def distrust(self, before_ms: int) -> None:
        """Something happened to a caller: what was issued until then is asked about again."""
        self._distrusted_ms = max(self._distrusted_ms, before_ms)
        self._keys.forget()

    def session(self, token: str) -> Session | None:
        """The session of a good token; None for everything else, about which Better IAM is to be asked."""
        if token.count(".") != 2:
            return None
        try:
            claims = self.verify(token)
        except NotTaken as why:
            log.info("a session JWT was not taken by itself: %s", why)
            return None
        if claims.iat * 1000 <= self._distrusted_ms:
            return None
        return Session(
            tenant_id=claims.tid,
            identity_id=claims.sub,
            identity_kind="unknown",
            session_id=claims.sid,
            session_kind=claims.kind,
            mfa=claims.mfa,
            root_tenant=claims.tid == self._root_tenant,
            role_id=claims.role,
            trust_id=claims.trust,
            credential=Credential(token),
        )

    def verify(self, token: str) -> Claims:
        """The claims of a token that passes every check; else NotTaken, which names the first that it failed."""
        if len(token) > MAX_TOKEN:
            raise NotTaken("too-large")
        segments = _SEGMENTS.fullmatch(token)
        if segments is None:
            raise NotTaken("malformed")
        header = _header(segments[1])
        if not _KID.fullmatch(header.kid):
            raise NotTaken("unknown-key")
        if header.alg not in _CURVES:
            raise NotTaken("algorithm")
        if header.typ != TYPE:
            raise NotTaken("type")
        if header.crit is not None:
            raise NotTaken("malformed")
        algorithm, key = self._keys.key(header.kid)
        if algorithm != header.alg:
            raise NotTaken("algorithm")
        try:
            payload = jws.deserialize_compact(token, key, algorithms=[algorithm]).payload
        except (JoseError, ValueError):
            raise NotTaken("signature") from None
        return self._claims(payload)

    def _claims(self, payload: bytes) -> Claims:
        try:
            claims = msgspec.json.decode(payload, type=Claims)
        except (msgspec.MsgspecError, RecursionError):
            raise NotTaken("claims") from None
        now = self._clock()
        named = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
        checks = {
            "claims": claims.jti == claims.sid,
            "issuer": claims.iss == self._issuer,
            "audience": bool(named & self._audiences),
            "expired": now < claims.exp + TOLERANCE_S,
            "not-yet-valid": claims.nbf <= now + TOLERANCE_S,
            "lifetime": 0 <= claims.exp - claims.iat <= MAX_LIFE_S,
        }
        for reason, passed in checks.items():
            if not passed:
                raise NotTaken(reason)
        return claims


def _header(segment: str) -> _Header:
    try:
        return msgspec.json.decode(urlsafe_b64decode(segment + "=" * (-len(segment) % 4)), type=_Header)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise NotTaken("malformed") from None
