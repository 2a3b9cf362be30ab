"""One caller cannot crowd out the others (api.md §2: 429 with Retry-After)."""

import fake_api
import pytest
from fake_api import ALICE, assert_problem
from litestar.testing import TestClient

from adapters.http.app import create_app
from adapters.http.limits import Bucket, Known, Limiter, Limits
from domain import errors
from domain.access import Session


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    bucket = Bucket(10, 100, clock)
    assert [bucket.take("a") for _ in range(10)] == [0] * 10
    assert bucket.take("a") == pytest.approx(0.1)
    clock.now += 0.1
    assert bucket.take("a") == 0
    assert bucket.take("a") > 0
    clock.now += 3600
    assert sum(bucket.take("a") == 0 for _ in range(20)) == 10


def test_callers_have_buckets_of_their_own() -> None:
    bucket = Bucket(1, 100, Clock())
    assert bucket.take("a") == 0
    assert bucket.take("b") == 0
    assert bucket.take("a") > 0


def test_memory_is_bounded_and_the_busiest_are_remembered() -> None:
    bucket = Bucket(2, 10, Clock())
    for other in range(1000):
        if other % 5 == 0:
            bucket.take("busy")
        bucket.take(other)
    assert len(bucket) == 10
    assert bucket.take("busy") > 0


def test_reads_and_mutations_are_counted_apart() -> None:
    limiter = Limiter(Limits(mutations=1, reads=2), Clock())
    limiter.admit("t", "i", read=False)
    with pytest.raises(errors.TooManyRequests) as refused:
        limiter.admit("t", "i", read=False)
    assert refused.value.retry_after == 1
    limiter.admit("t", "i", read=True)
    limiter.admit("t", "i", read=True)
    limiter.admit("t", "j", read=False)


@pytest.mark.parametrize("other", ["2001:db8::2", "2001:db8:0:0:ffff::1"])
def test_one_ipv6_network_is_one_stranger(other: str) -> None:
    limiter = Limiter(Limits(anonymous=1), Clock())
    limiter.admit_stranger("2001:db8::1")
    with pytest.raises(errors.TooManyRequests):
        limiter.admit_stranger(other)
    limiter.admit_stranger("2001:db8:0:1::1")
    limiter.admit_stranger("not:an:address")


def test_the_default_rates_are_the_contract() -> None:
    assert (Limits().mutations, Limits().reads) == (60, 600)


def test_too_many_mutations_are_429_and_the_neighbour_goes_on() -> None:
    with fake_api.client(limits=Limits(mutations=2, reads=100, anonymous=100)) as http:
        statuses = [http.delete("/v1/widgets/w", headers=ALICE).status_code for _ in range(3)]
        assert statuses == [204, 204, 429]
        response = http.delete("/v1/widgets/w", headers=ALICE)
        assert_problem(response, 429, "RATE_LIMITED")
        assert int(response.headers["retry-after"]) >= 1
        assert http.get("/v1/widgets/w", headers=ALICE).status_code == 200
        assert http.delete("/v1/widgets/w", headers={"Authorization": "Bearer bob"}).status_code == 204


def test_strangers_are_counted_by_address_and_members_are_not_held_up_by_them() -> None:
    with fake_api.client(limits=Limits(anonymous=2)) as http:
        statuses = [http.get("/v1/widgets/w", headers={"Authorization": "Bearer guess"}).status_code for _ in range(3)]
        assert statuses == [401, 401, 429]
        assert http.post("/v1/widgets/join", json={}, headers={"Authorization": "Bearer j"}).status_code == 429
        assert http.get("/v1/widgets/w", headers=ALICE).status_code == 200
        assert http.get("/health/live").status_code == 200


def test_where_asking_costs_unknown_tokens_are_counted_before_anybody_is_asked() -> None:
    asked: list[str] = []

    def identify(token: str) -> Session | None:
        asked.append(token)
        return None if token in revoked else fake_api.identify(token)

    revoked: set[str] = set()
    with TestClient(
        create_app(
            fake_api.OPERATIONS,
            fake_api.Fake().dispatch,
            identify,
            fake_api.healthy,
            limits=Limits(anonymous=3, mutations=100),
            identify_blocks=True,
        )
    ) as http:

        def shows(token: str) -> int:
            return int(http.get("/v1/widgets/w", headers={"Authorization": f"Bearer {token}"}).status_code)

        assert [shows("good") for _ in range(5)] == [200] * 5
        assert shows("bob") == 200
        assert [shows(f"guess-{n}") for n in range(20)] == [401] * 3 + [429] * 17
        assert sum(token.startswith("guess") for token in asked) == 3
        assert [shows("good"), shows("bob")] == [200, 200]
        revoked.add("good")
        assert [shows("good") for _ in range(3)] == [429] * 3
        assert asked.count("good") == 7


def test_who_was_good_is_remembered_within_bounds() -> None:
    known = Known(2)
    for token in ("a", "b", "a", "c"):
        known.good(token)
    assert [token in known for token in "abc"] == [True, False, True]
    known.bad("a")
    assert "a" not in known
