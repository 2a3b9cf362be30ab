"""A history from a seed: the machine's rules by weight, so that most of it is what most days are made of."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from domain.claim import Claim, Colocation, DeviceLine, Topology
from histories import machine
from histories.fleet import NODES, SIZES, TENANTS, Terms
from histories.invariants import SELECTORS

Draw = Callable[[Random], dict[str, Any]]


def _seldom(rng: Random, *others: Any) -> Any:
    return rng.choice(others) if rng.random() < 0.4 else None


def _line(rng: Random) -> DeviceLine:
    return DeviceLine("gpu", rng.choice((0, 1, 1, 2, 2, 3)), _seldom(rng, *SELECTORS), _seldom(rng, Colocation("numa")))


def _create(rng: Random) -> dict[str, Any]:
    lines = tuple(_line(rng) for _ in range(rng.choice((1, 1, 2))))
    topology = _seldom(rng, Topology(pack="rack"), Topology(spread="rack"))
    asked = Claim(lines, rng.choice((1, 1, 2, 3)), topology, rng.choice(({}, {"vcpu": 2}, {"vcpu": 5})))
    terms = {
        "spot": rng.random() < 0.4,
        "max_pending_seconds": _seldom(rng, 0, 1800),
        "lease_seconds": _seldom(rng, 60, 900),
        "project": _seldom(rng, "its own"),
    }
    return _window(rng) | {"asked": asked, "terms": {name: value for name, value in terms.items() if value is not None}}


def _window(rng: Random) -> dict[str, Any]:
    ahead = _seldom(rng, 0, 10 * machine.MINUTE, machine.HOUR, 2 * machine.HOUR)
    return {"tenant": rng.choice(TENANTS), "ahead": ahead, "seconds": rng.choice((600, 1200, 3600, 7200))}


def _some(rng: Random) -> dict[str, Any]:
    asked = [(_window(rng), Claim((DeviceLine("gpu", rng.randint(0, 3)),))) for _ in range(rng.randint(1, 3))]
    return {"asked": [(of["tenant"], one, of["ahead"], of["seconds"]) for of, one in asked]}


RULES: Final[Mapping[str, tuple[int, Draw]]] = {
    "create": (8, _create),
    "create_some": (8, _some),
    "act": (8, lambda rng: {"verb": rng.choice(("cancel", "release", "release", "renew"))}),
    "act_once": (
        8,
        lambda rng: {"verb": rng.choice(("extend", "extend", "confirm", "evict")), "minutes": rng.randint(-60, 120)},
    ),
    "limit": (
        3,
        lambda rng: {
            "of": rng.choice(("offer", "tenant", "project", "budget")),
            "tenant": rng.choice(TENANTS),
            "most": _seldom(rng, *range(10)),
        },
    ),
    "serve": (
        4,
        lambda rng: {
            "verb": rng.choice((*machine.SERVICE, "uncordon", "end maintenance", "plan", "drain until")),
            "ahead": rng.randint(0, 3),
        },
    ),
    "agent": (8, lambda rng: {"does": rng.choice(("works", "works", "reports", "reports", "reports late"))}),
    "agents_report": (4, lambda rng: {}),
    "agent_comes_or_goes": (3, lambda rng: {"lost": rng.random() < 0.5}),
    "time_passes": (
        6,
        lambda rng: {
            "minutes": rng.choice((1, 4, 6, 15, 60, 600)),
            "is_set": rng.random() < 0.1,
            "back": rng.random() < 0.5,
        },
    ),
    "controllers_run": (6, lambda rng: {}),
    "queue_is_walked": (2, lambda rng: {}),
    "all_goes_well": (14, lambda rng: {"minutes": rng.choice((0, 1, 10, 60))}),
    "launch": (
        8,
        lambda rng: {
            "tenant": rng.choice(TENANTS),
            "size": rng.randrange(len(SIZES)),
            "loss": rng.choice(("fail", "replace")),
            "waits": _seldom(rng, 0, 1800),
        },
    ),
    "launch_on": (4, lambda rng: {"size": rng.randrange(len(SIZES))}),
    "act_on_instance": (
        6,
        lambda rng: {"verb": rng.choice(("start", "stop", "delete", "delete", "release", "evict"))},
    ),
    "process": (3, lambda rng: {"does": rng.choice(("stands still", "goes on", "goes on", "restarts", "takes over"))}),
}
LAUNCHING: Final = frozenset({"launch", "launch_on", "act_on_instance"})
BY: Final = LAUNCHING | {
    "create",
    "create_some",
    "act",
    "act_once",
    "limit",
    "serve",
    "agent",
    "agents_report",
    "agent_comes_or_goes",
}
PICKS: Final = frozenset({"act", "act_once", "launch_on", "act_on_instance"})
NODE: Final = frozenset({"serve", "agent", "agent_comes_or_goes"})


def steps(rng: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    while True:
        (name,) = rng.choices([*RULES], [weight for weight, _ in RULES.values()])
        drawn = RULES[name][1](rng)
        drawn |= {"by": rng.randint(0, 1)} if name in BY or name == "process" else {}
        drawn |= {"pick": rng.randint(0, 999)} if name in PICKS else {}
        drawn |= {"node": rng.randrange(NODES)} if name in NODE else {}
        yield name, drawn


def _possible(of: machine.Histories, name: str) -> bool:
    if name in LAUNCHING and not of.for_instances:
        return False
    if name == "act_on_instance":
        return bool(of.launched)
    return bool(of.made) if name in PICKS else name != "queue_is_walked" or bool(of.model.waiting())


def run(of: machine.Histories, seed: int, length: int, *, audited: bool) -> None:
    """So many steps; where one shows a fault, all that led there is told."""
    rng, told = Random(seed), []
    try:
        checks = rng.choice(("off", "off", "confirm", "enforce"))
        terms = Terms(rng.choice((0, 60)), checks, rng.choice(("metal-host", "vps-host")))
        told.append(f"start({terms})")
        of.start(terms=terms, audited=audited, asked=_some(rng)["asked"])
        of.everything_holds()
        for _, (name, drawn) in zip(range(length), steps(rng), strict=False):
            if not _possible(of, name):
                continue
            told.append(f"{name}({', '.join(f'{key}={value!r}' for key, value in drawn.items())})")
            getattr(of, name)(**drawn)
            of.everything_holds()
        of.teardown()
    except Exception as fault:
        fault.add_note(f"seed {seed}:\n" + "\n".join(told))
        raise
