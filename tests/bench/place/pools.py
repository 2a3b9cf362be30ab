"""Pools of nodes with 8 GPUs and 100,000 bookings over the next thirty days, in a calendar and nothing else.

Each was asked once already: the first question of all is measured with the rebuild.
"""

import random
from typing import Final

from domain import calendar

HOUR_MS: Final = 3_600_000
HORIZON_MS: Final = 30 * 24 * HOUR_MS
NOW: Final = 1_900_000_000_000
BOOKINGS: Final = 100_000
GPUS: Final = 8
SIZES: Final = (1, 1, 1, 1, 1, 2, 4, 8)
"""GPUs of a booking: three in four ask for less than half a node."""
HOLE_MS: Final = HOUR_MS // 6


def node(number: int) -> calendar.Node:
    name = f"node_{number:05}"
    gpus = tuple(
        calendar.Atom(f"{name}/g{i}", "gpu", gpu_model="H100", numa_node=i // 4, nvlink_group="0") for i in range(GPUS)
    )
    return calendar.Node(name, name, {"rack": f"r{number // 16}"}, True, 1, gpus, {"vcpu": 256}, GPUS)


def empty(nodes: int) -> calendar.Calendar:
    made = calendar.Calendar("pool_bench")
    made.forget_before(NOW)
    for number in range(nodes):
        made.put_node(node(number))
    return made


def booked(nodes: int, seed: int) -> calendar.Calendar:
    """Bookings of one to twelve hours on nodes drawn at random: more torn than best fit would leave it."""
    made, dice = empty(nodes), random.Random(seed)
    entries = list(made.entries.values())
    count = 0
    while count < BOOKINGS:
        entry, wanted = dice.choice(entries), dice.choice(SIZES)
        start = NOW + dice.randrange(HORIZON_MS)
        until = start + dice.randrange(HOUR_MS, 12 * HOUR_MS)
        atoms = entry.atoms(made.free(entry, start, until))[:wanted]
        if len(atoms) == wanted:
            made.book(f"alloc_{count}", entry.node.id, atoms, {"vcpu": wanted}, start, until)
            count += 1
    made.census("gpu", NOW)
    return made


def full(nodes: int, seed: int) -> calendar.Calendar:
    """Every GPU is taken for thirty days, with holes of ten minutes between its 100,000 bookings."""
    made, dice = empty(nodes), random.Random(seed)
    mean = HORIZON_MS * nodes * GPUS // BOOKINGS
    count = 0
    for entry in made.entries.values():
        for atom in entry.bits:
            start = NOW - dice.randrange(mean)
            while start < NOW + HORIZON_MS:
                until = min(start + dice.randrange(mean // 2, 2 * mean), NOW + HORIZON_MS)
                made.book(f"alloc_{count}", entry.node.id, (atom,), {"vcpu": 1}, start, until)
                start, count = until + HOLE_MS, count + 1
    made.census("gpu", NOW)
    return made
