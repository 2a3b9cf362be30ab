"""A session JWT is taken by itself only when every check passes (iam.md §13)."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.iam.better import session_jwt
from adapters.iam.better.client import Client
from adapters.iam.better.session_jwt import MOST_KEYS, KeySet, NotTaken, SessionJwts
from iam_server.http import Server, serving
from iam_server.jwts import Issuer
from iam_server.model import Iam


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.ahead


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Iam(frozenset())) as served:
        yield served


@pytest.fixture
def issuer(server: Server) -> Issuer:
    return Issuer(server)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jwts(server: Server, clock: Clock) -> Iterator[SessionJwts]:
    client = Client(server.url, total_s=2)
    yield SessionJwts(KeySet(client, clock), server.url, frozenset(["better-compute", "other"]), "platform")
    client.close()


@pytest.mark.parametrize("kid", ["ed-1", "es-1"])
def test_a_good_token_is_a_session(issuer: Issuer, jwts: SessionJwts, kid: str) -> None:
    token = issuer.token(kid, mfa=True, unheard_of={"a": 1})
    session = jwts.session(token)
    assert session is not None
    assert (session.tenant_id, session.identity_id, session.identity_kind) == ("acme", "alice", "unknown")
    assert (session.session_id, session.session_kind, session.mfa) == ("ses_1", "role", True)
    assert (session.role_id, session.trust_id, session.root_tenant) == ("role_1", "trust_1", False)
    assert session.credential is not None
    assert session.credential.token == token


def why(jwts: SessionJwts, token: str) -> str | None:
    """Why the token is not taken; None for one that is."""
    try:
        jwts.verify(token)
    except NotTaken as reason:
        return str(reason)
    return None


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("issuer", {"iss": "https://other.example/api/iam"}),
    ("issuer", {"iss": "http://127.0.0.1"}),
    ("audience", {"aud": "somebody"}),
    ("audience", {"aud": ["a", "b"]}),
    ("claims", {"aud": []}),
    ("claims", {"aud": 7}),
    ("claims", {"kind": "user"}),
    ("claims", {"kind": "delegated"}),
    ("claims", {"jti": "ses_2"}),
    ("claims", {"mfa": "true"}),
    ("claims", {"mfa": 1}),
    ("claims", {"iat": "1"}),
    ("claims", {"exp": None}),
    ("claims", {"sub": ""}),
    ("claims", {"sub": "x" * 257}),
    ("claims", {"role": "x" * 1025}),
    ("claims", {"role": 7}),
    *(("claims", {name: ...}) for name in ("iss", "aud", "sub", "tid", "sid", "jti", "iat", "nbf", "exp", "auth_time")),
    *(("claims", {name: ...}) for name in ("kind", "mfa")),
]


@pytest.mark.parametrize(("reason", "claims"), WRONG)
def test_a_claim_that_is_wrong(issuer: Issuer, jwts: SessionJwts, reason: str, claims: dict[str, Any]) -> None:
    assert why(jwts, issuer.token(**claims)) == reason


@pytest.mark.parametrize(
    ("reason", "offsets"),
    [
        ("expired", {"exp": -6}),
        (None, {"exp": -4}),
        ("not-yet-valid", {"nbf": 7}),
        (None, {"nbf": 4}),
        ("lifetime", {"exp": 43_203}),
        (None, {"exp": 43_200}),
        ("lifetime", {"iat": 30, "exp": 20}),
    ],
)
def test_time(issuer: Issuer, jwts: SessionJwts, reason: str | None, offsets: dict[str, int]) -> None:
    now = issuer.claims()["iat"]
    token = issuer.token(
        **({"iat": now - 900 if offsets.get("exp", 0) < 0 else now} | {k: now + v for k, v in offsets.items()})
    )
    if reason is None:
        assert jwts.verify(token).sub == "alice"
    else:
        assert why(jwts, token) == reason


@pytest.mark.parametrize(
    ("reason", "header"),
    [
        ("type", {"typ": "JWT"}),
        ("type", {"typ": "biam-delegation+jwt"}),
        ("malformed", {"typ": ...}),
        ("malformed", {"kid": ...}),
        ("unknown-key", {"kid": "a b"}),
        ("unknown-key", {"kid": "x" * 65}),
        ("unknown-key", {"kid": "nobody"}),
        ("algorithm", {"kid": "es-1"}),
    ],
)
def test_a_header_that_is_wrong(issuer: Issuer, jwts: SessionJwts, reason: str, header: dict[str, Any]) -> None:
    assert why(jwts, issuer.token("ed-1", header)) == reason


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256", "Ed25519", "eddsa"])
def test_no_other_algorithm_is_taken(issuer: Issuer, jwts: SessionJwts, algorithm: str) -> None:
    _, payload, signature = issuer.token().split(".")
    header = {"alg": algorithm, "kid": "ed-1", "typ": session_jwt.TYPE}
    forged = urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    assert why(jwts, f"{forged}.{payload}.{signature}") == "algorithm"


def test_a_signature_that_is_not_of_the_key(issuer: Issuer, jwts: SessionJwts) -> None:
    head, payload, signature = issuer.token().split(".")
    other = issuer.token(sub="root").split(".")[1]
    issuer.add("ed-2", "EdDSA")
    foreign = issuer.signed("ed-2", json.dumps(issuer.claims()).encode(), {"kid": "ed-1"})
    for token in (f"{head}.{other}.{signature}", f"{head}.{payload}.{signature[:-4]}AAAA", foreign):
        assert why(jwts, token) == "signature"


@pytest.mark.parametrize(
    ("reason", "token"),
    [("malformed", ".."), ("malformed", "a.b.c.d"), ("malformed", "e30.e30.é"), ("too-large", "x" * 4097)],
)
def test_what_is_no_token(jwts: SessionJwts, reason: str, token: str) -> None:
    assert why(jwts, token) == reason


def test_an_opaque_token_is_not_looked_at(jwts: SessionJwts) -> None:
    assert jwts.session("biam_ses_x") is None


def test_keys_are_kept_and_looked_for_again(server: Server, issuer: Issuer, jwts: SessionJwts, clock: Clock) -> None:
    assert jwts.verify(issuer.token())
    issuer.add("ed-2", "EdDSA")
    assert why(jwts, issuer.token("ed-2")) == "unknown-key"
    issuer.publish()
    assert why(jwts, issuer.token("ed-2")) == "unknown-key"
    clock.ahead = 31
    assert jwts.verify(issuer.token("ed-2"))
    server.documents.clear()
    clock.ahead = 630
    assert jwts.verify(issuer.token("ed-2"))
    clock.ahead = 632
    assert why(jwts, issuer.token("ed-2")) == "jwks"


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"alg": "ES256"},
        {"crv": "X25519"},
        {"kty": "EC"},
        {"d": "c2VjcmV0"},
        {"x": "!"},
        {"x": 7},
        {"kid": 7},
        {"alg": None},
        {"alg": ["EdDSA"]},
    ],
)
def test_a_key_that_is_not_one_is_passed_over(issuer: Issuer, jwts: SessionJwts, change: dict[str, Any]) -> None:
    issuer.publish(issuer.public("ed-1", **change), issuer.public("es-1"))
    assert why(jwts, issuer.token("ed-1")) == "unknown-key"
    assert jwts.verify(issuer.token("es-1"))


def test_a_kid_of_two_keys_is_neithers(issuer: Issuer, jwts: SessionJwts) -> None:
    issuer.add("ed-2", "EdDSA")
    issuer.publish(issuer.public("ed-1"), issuer.public("ed-2", kid="ed-1"))
    assert why(jwts, issuer.token("ed-1")) == "unknown-key"


def test_more_keys_than_anybody_signs_with_are_none(issuer: Issuer, jwts: SessionJwts) -> None:
    issuer.publish(*[issuer.public("ed-1", kid=f"k{n}") for n in range(MOST_KEYS)], issuer.public("ed-1"))
    assert why(jwts, issuer.token("ed-1")) == "jwks"


def test_what_was_issued_before_something_happened_is_asked_about(issuer: Issuer, jwts: SessionJwts) -> None:
    now = issuer.claims()["iat"]
    jwts.distrust((now + 1) * 1000)
    assert jwts.session(issuer.token()) is None
    assert jwts.session(issuer.token(iat=now + 2)) is not None
