"""What a run says of itself: a line a round, the figures at the end, and what the serves logged meanwhile."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tests.bench import figures
from tests.torture.plane import Serve
from tests.torture.rounds import Round, Torture

GREETING: Final = "Better Compute serves "
HEAD: Final = (
    "round  killed                        after  acknowledged  unknown (open)  database   ready  caught up"
    "  verified  events"
)


def line(found: Round) -> str:
    """`unknown` are requests that a kill left without an answer, `open` those that have none yet."""
    times = found.times
    verdict = f"{len(found.wrong)} VIOLATIONS" if found.wrong else "ok"
    database = "-" if times.database is None else f"{times.database:.2f}s"
    audited = "" if found.compared is None else f", audit diff of {found.compared} rows"
    return (
        f"{found.number:>5}  {found.victim:<28} {times.before:>5.2f}s  {found.acknowledged:>12}"
        f"  {found.unanswered:>7} ({found.open:>4})  {database:>8}  {times.ready:>5.2f}s"
        f"  {times.caught_up:>8.2f}s  {times.verified:>7.2f}s  {found.events:>6}  {verdict}{audited}"
    )


def summary(rounds: Sequence[Round], running: Torture, seconds: float) -> str:
    """`seconds` is how long all of it took."""
    load = running.load
    outcomes = ", ".join(f"{times} {name}" for name, times in load.outcomes.most_common())
    actors = ", ".join(f"{times} by {name}" for name, times in running.log.actors().most_common())
    rows = [
        ("rounds, all of it in s", f"{len(rounds)}, {seconds:.0f}"),
        ("acknowledged, each held against the log", str(load.granted)),
        ("requests that a kill left unknown; open at the end", f"{len(load.unanswered)}; {load.open}"),
        ("of the unknown, recorded after all", str(running.log.made_by(load.unanswered))),
        ("answers", outcomes),
        ("events in the log", f"{len(running.log.events)}: {actors}"),
        *((f"ready again after the kill of {victim}, s", spread) for victim, spread in _recoveries(rounds)),
        ("read models at the log's head, s after the load paused", _spread(found.times.caught_up for found in rounds)),
    ]
    return figures.table("Torture", rows)


def _recoveries(rounds: Sequence[Round]) -> Iterator[tuple[str, str]]:
    for victim in sorted({found.victim for found in rounds}):
        times = [found.times.ready for found in rounds if found.victim == victim]
        yield victim, f"{_spread(times)}, {len(times)} times"


def _spread(seconds: Iterable[float]) -> str:
    return figures.spread([*seconds], 2)


def logged(serves: Iterable[Serve]) -> str:
    """What the serves logged as an error or with a traceback: each message once, and how often it came."""
    seen: Counter[str] = Counter()
    for serve in serves:
        for text in serve.log.read_text(errors="replace").splitlines():
            if (said := _error(text)) is not None:
                seen[said] += 1
    return "\n".join(f"{times:>6}  {said}" for said, times in seen.most_common())


def _error(text: str) -> str | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None if text.startswith(GREETING) else text[:200] or None
    if said.get("level") not in ("error", "critical") and "exception" not in said:
        return None
    cause = str(said.get("exception", "")).rpartition("\n")[2]
    return f"{said.get('logger')}: {said.get('message')} {cause}"[:400]
