"""What the agents of one process counted."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """`micros` from sending a heartbeat until it was taken; `last` welcome on the machine's monotonic clock, in s."""

    connected: int = 0
    lost: int = 0
    beats: int = 0
    flooded: int = 0
    last: float = 0.0
    micros: list[int] = field(default_factory=list)
    closes: Counter[str] = field(default_factory=Counter)
