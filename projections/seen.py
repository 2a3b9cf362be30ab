"""What an append counts on and does not change: nodes that are still as the decision saw them."""

from collections.abc import Iterator, Sequence

from domain.event import Seen
from projections.gates import node_gate
from projections.projection import Phase, Statement

_MOVED_ON = """
SELECT refuse('RACE', jsonb_build_object('stream', stream))
FROM unnest(%s::text[], %s::bigint[]) AS seen (stream, version)
JOIN stored_events ON originator_id = stream AND originator_version = version + 1
"""


def unmoved(seen: Sequence[Seen]) -> Iterator[Statement]:
    """Hold the gates of these nodes, which every new session takes too, and race with what moved them on."""
    if not seen:
        return
    for one in seen:
        yield node_gate(one.stream)
    params = ([one.stream for one in seen], [one.version for one in seen])
    yield Statement(Phase.GATE_CHECK, "", _MOVED_ON, params, only_live=True)
