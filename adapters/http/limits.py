"""How often one caller may ask: token buckets in memory, of this process (api.md §2: 429).

What must hold across processes (quotas, budgets) is decided in the domain; this only keeps one client from
crowding out the others.
"""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import sha256

from msgspec import Struct

from domain import errors

Clock = Callable[[], float]


class Limits(Struct, frozen=True, kw_only=True):
    """Requests a second, each also the burst. `anonymous` counts what bears no valid session, per address."""

    mutations: float = 60
    reads: float = 600
    anonymous: float = 60
    callers: int = 50_000


class Bucket:
    """One rate for many callers. Beyond `bound` the longest idle are forgotten: an idle bucket is full."""

    def __init__(self, rate: float, bound: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = max(rate, 1.0)
        self._bound = bound
        self._clock = clock
        self._known: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> float:
        """Take one token; return 0, or the seconds until there is one."""
        now = self._clock()
        left, since = self._known.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            return (1 - left) / self._rate if self._rate > 0 else 60.0
        self._known[caller] = (left - 1, now)
        self._known.move_to_end(caller)
        if len(self._known) > self._bound:
            self._known.popitem(last=False)
        return 0

    def give_back(self, caller: Hashable) -> None:
        """One token that was taken for nothing."""
        if caller in self._known:
            left, since = self._known[caller]
            self._known[caller] = (left + 1, since)

    def __len__(self) -> int:
        return len(self._known)


class Limiter:
    """The three rates of a process. Not for threads: the event loop alone asks."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._limits = limits
        self._mutations = Bucket(limits.mutations, limits.callers, clock)
        self._reads = Bucket(limits.reads, limits.callers, clock)
        self._anonymous = Bucket(limits.anonymous, limits.callers, clock)
        self.known = Known(limits.callers)

    def admit(self, tenant_id: str, identity_id: str, *, read: bool) -> None:
        bucket, rate = (self._reads, self._limits.reads) if read else (self._mutations, self._limits.mutations)
        wait = bucket.take((tenant_id, identity_id))
        if wait:
            kind = "reads" if read else "mutations"
            raise errors.TooManyRequests(f"at most {rate:g} {kind} a second for one identity", math.ceil(wait))

    def admit_stranger(self, address: str) -> None:
        wait = self._anonymous.take(_network(address))
        if wait:
            raise errors.TooManyRequests(
                f"at most {self._limits.anonymous:g} requests a second without a session from one address",
                math.ceil(wait),
            )

    def was_no_stranger(self, address: str) -> None:
        """Who was counted as one before anybody knew, and has a session."""
        self._anonymous.give_back(_network(address))


class Known:
    """Digests of the tokens that were good when they were last shown. It lets nobody in: they are asked about first.

    Where asking costs (a Better IAM), a token that is not among them counts as a stranger's until it is known.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, token: str) -> bool:
        return _digest(token) in self._digests

    def good(self, token: str) -> None:
        digest = _digest(token)
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > self._bound:
            self._digests.popitem(last=False)

    def bad(self, token: str) -> None:
        self._digests.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _network(address: str) -> str:
    """An IPv6 customer owns a /64: its addresses are one caller."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address, 64), strict=False))
    except ValueError:
        return address
