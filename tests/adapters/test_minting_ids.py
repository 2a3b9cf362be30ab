"""New ids, and the random bytes they are made of."""

import threading

from adapters.entropy import Entropy
from adapters.ids import Mint


def test_ids_sort_as_they_were_made_and_never_come_twice() -> None:
    mint = Mint()
    made = [mint("rsv") for _ in range(5_000)]
    assert made == sorted(set(made))


def test_when_the_clock_moves_on_an_id_tells_nothing_of_the_one_before() -> None:
    instants = iter(range(1_000))
    mint = Mint(clock_ms=lambda: next(instants))
    ends = {mint("rsv")[-16:] for _ in range(1_000)}
    assert len(ends) == 1_000


def test_no_byte_is_given_out_twice_whoever_asks() -> None:
    entropy, drawn = Entropy(), []

    def draw() -> None:
        drawn.extend([entropy(16) for _ in range(1_000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(one) for one in drawn} == {16}
    assert len(set(drawn)) == 4_000
