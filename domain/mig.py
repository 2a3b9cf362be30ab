"""Which MIG layouts a GPU can hold (domain.md §2 `migLayout`, anchors.md §2.7).

A layout is legal when its memory ranges are disjoint, its compute slices fit, at most one slice takes the
media engines that exist once (`+me`), and every slice begins where the driver lets its profile begin. It says
nothing of what is running: `match` recognises a reported instance as one of the profiles here.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from domain import gpu

PROFILE_PATTERN: Final = r"^[1-9]g\.[0-9]{1,3}gb([+-][a-z]+(\.[a-z]+)?)?$"


class Slice(Struct, frozen=True, forbid_unknown_fields=True):
    """One slice of a layout: `start` counts memory slices from 0."""

    profile: Annotated[str, Meta(max_length=24, pattern=PROFILE_PATTERN)]
    start: Annotated[int, Meta(ge=0, le=7)]


class Piece(Protocol):
    """What the rules read of a slice, so that a pool's or a node's own struct serves as well as `Slice`."""

    @property
    def profile(self) -> str: ...

    @property
    def start(self) -> int: ...


class Profile(Struct, frozen=True):
    """`compute` and `memory` count slices; `memory_gb` is the figure in the name, not a measurement."""

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]
    memory_gb: int
    multiprocessors: int | None = None
    media: bool = False


class IllegalLayout(ValueError):
    """A layout the hardware cannot hold; `index` is the position of the slice that breaks the rule."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.message = message
        self.index = index


class _Shape(Struct, frozen=True):
    compute: int
    memory: int
    starts: tuple[int, ...]


_SEVEN: Final = (
    _Shape(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    _Shape(1, 2, (0, 2, 4, 6)),
    _Shape(2, 2, (0, 2, 4)),
    _Shape(3, 4, (0, 4)),
    _Shape(4, 4, (0,)),
    _Shape(7, 8, (0,)),
)
_FOUR: Final = (_Shape(1, 1, (0, 1, 2, 3)), _Shape(2, 2, (0, 2)), _Shape(4, 4, (0,)))

_Multiprocessors = tuple[int | None, ...]
_AMPERE: Final[_Multiprocessors] = (14, 14, 28, 42, 56, 98)
_HOPPER: Final[_Multiprocessors] = (16, 26, 32, 60, 64, 132)
_BLACKWELL: Final[_Multiprocessors] = (18, 30, 36, None, None, None)
_UNREAD: Final[_Multiprocessors] = (None,) * 6


def _profiles(
    shapes: tuple[_Shape, ...], sizes: tuple[int, ...], counts: _Multiprocessors, variants: tuple[str, ...]
) -> tuple[Profile, ...]:
    """The plain profiles, then their variants: each is written `2g.12gb+me` by its plain name and suffix."""
    plain = [
        Profile(f"{shape.compute}g.{size}gb", shape.compute, shape.memory, shape.starts, size, count)
        for shape, size, count in zip(shapes, sizes, counts, strict=False)
    ]
    by_name = {profile.name: profile for profile in plain}
    special = [_variant(by_name[name], suffix) for name, _, suffix in (v.partition("|") for v in variants)]
    return (*plain, *special)


def _variant(plain: Profile, suffix: str) -> Profile:
    return Profile(
        plain.name + suffix,
        plain.compute,
        plain.memory,
        plain.starts,
        plain.memory_gb,
        plain.multiprocessors,
        media=suffix.startswith("+me"),
    )


def _seven(sizes: tuple[int, ...], multiprocessors: _Multiprocessors) -> tuple[Profile, ...]:
    return _profiles(_SEVEN, sizes, multiprocessors, (f"1g.{sizes[0]}gb|+me",))


_A100_40: Final = _seven((5, 10, 10, 20, 20, 40), _AMPERE)
_A100_80: Final = _seven((10, 20, 20, 40, 40, 80), _AMPERE)
_H100_80: Final = _seven((10, 20, 20, 40, 40, 80), _HOPPER)
_H100_94: Final = _seven((12, 24, 24, 47, 47, 94), _UNREAD)
_H100_96: Final = _seven((12, 24, 24, 48, 48, 96), _UNREAD)
_SUFFIXES: Final = ("+gfx", "+me.all", "-me")
_RTXPRO6000_VARIANTS: Final = (
    *(f"{plain}|{suffix}" for plain in ("1g.24gb", "2g.48gb", "4g.96gb") for suffix in _SUFFIXES),
    "1g.24gb|+me",
)

#: By family and nominal memory in GB, as domain/gpu-models.json gives them.
_TABLE: Final[dict[tuple[str, int], tuple[Profile, ...]]] = {
    ("A100", 40): _A100_40,
    ("A100", 80): _A100_80,
    ("A800", 40): _A100_40,
    ("A800", 80): _A100_80,
    ("A30", 24): _profiles(_FOUR, (6, 12, 24), _UNREAD, ("1g.6gb|+me", "2g.12gb|+me")),
    ("H100", 80): _H100_80,
    ("H800", 80): _H100_80,
    ("H100", 94): _H100_94,
    ("H800", 94): _H100_94,
    ("H100", 96): _H100_96,
    ("GH200", 96): _H100_96,
    ("H20", 96): _H100_96,
    ("GH200", 144): _seven((18, 36, 36, 72, 72, 144), _UNREAD),
    ("H200", 141): _seven((18, 35, 35, 71, 71, 141), _HOPPER),
    ("B200", 180): _seven((23, 45, 45, 90, 90, 180), _BLACKWELL),
    ("GB200", 186): _seven((24, 47, 47, 93, 93, 186), _UNREAD),
    ("B300", 269): _seven((34, 67, 67, 135, 135, 269), _UNREAD),
    ("GB300", 278): _seven((35, 70, 70, 139, 139, 278), _UNREAD),
    ("RTXPRO6000", 96): _profiles(_FOUR, (24, 48, 96), _UNREAD, _RTXPRO6000_VARIANTS),
}


def profiles(model: str, memory_gb: int | None) -> tuple[Profile, ...]:
    """The profiles of a GPU family at that nominal memory; none when it has no MIG or no table is known."""
    return _TABLE.get((model, memory_gb or 0), ())


def profile(model: str, memory_gb: int | None, name: str) -> Profile | None:
    """The profile of exactly this name."""
    return next((one for one in profiles(model, memory_gb) if one.name == name), None)


def check_layout(model: str, memory_gb: int | None, layout: Sequence[Piece]) -> None:
    """Refuses a layout that the hardware cannot hold; `model` is a family (`H100`) or a product name.

    Raises IllegalLayout at the first slice that breaks a rule (anchors.md §2.7, "Legality").
    """
    family = gpu.family(model)
    known = {profile.name: profile for profile in profiles(family, memory_gb)}
    if not known:
        raise IllegalLayout(f"no MIG profiles are known for {family} with {memory_gb} GB", 0)
    taken: dict[int, int] = {}
    compute, media = 0, None
    for index, piece in enumerate(layout):
        profile = known.get(piece.profile)
        if profile is None:
            legal = ", ".join(known)
            problem = f"{family} with {memory_gb} GB has no profile {piece.profile}; it has {legal}"
            raise IllegalLayout(problem, index)
        _check_place(profile, piece.start, taken, index)
        compute += profile.compute
        if compute > max(p.compute for p in known.values()):
            raise IllegalLayout(f"{piece.profile} is one compute slice too many: {compute} in all", index)
        if profile.media and media is not None:
            raise IllegalLayout(f"slice {media} has the media engines already; only one can", index)
        media = index if profile.media else media


def _check_place(profile: Profile, start: int, taken: dict[int, int], index: int) -> None:
    """Notes the memory slices the piece occupies in `taken`, so that a later one sees who was there first."""
    if start not in profile.starts:
        legal = ", ".join(map(str, profile.starts))
        raise IllegalLayout(f"{profile.name} cannot start at {start}; it starts at {legal}", index)
    for place in range(start, start + profile.memory):
        if place in taken:
            raise IllegalLayout(
                f"{profile.name} at {start} overlaps slice {taken[place]} in memory slice {place}", index
            )
        taken[place] = index


_REPORTED = re.compile(r"\A(?:mig )?(?:\d+c\.)?(?P<compute>\d)g\.(?P<gb>\d+)gb(?P<suffix>(?:[+-][a-z.]+)?)\Z")
_CLOSE: Final = 0.25


def match(
    model: str,
    memory_gb: int | None,
    *,
    name: str | None = None,
    memory_mib: int | None = None,
    multiprocessors: int | None = None,
) -> str | None:
    """The profile that a driver's report of an instance means, or None when no single one fits.

    Drivers round the memory in the name differently from release to release (1g.11gb, 1g.12gb), and
    `nvidia-smi -q -x` gives no name at all, only memory and multiprocessors; 1g.20gb and 2g.20gb have the
    same memory and differ in the latter (anchors.md §2.7, "Traps").
    """
    known = profiles(gpu.family(model), memory_gb)
    if name is not None:
        return _by_name(known, name.strip().lower())
    if memory_mib is None:
        return None
    near = _nearest([p for p in known if p.name == p.name.split("+")[0].split("-")[0]], memory_mib / 1024)
    if len(near) > 1:
        near = [p for p in near if multiprocessors is not None and p.multiprocessors == multiprocessors]
    return near[0].name if len(near) == 1 else None


def _by_name(known: Sequence[Profile], name: str) -> str | None:
    reported = _REPORTED.match(name)
    if reported is None:
        return None
    same = [
        p for p in known if p.compute == int(reported["compute"]) and p.name.partition("gb")[2] == reported["suffix"]
    ]
    near = _nearest(same, int(reported["gb"]))
    return near[0].name if len(near) == 1 else None


def _nearest(known: Sequence[Profile], gb: float) -> list[Profile]:
    """All profiles at the smallest distance, none when even that is more than a quarter off."""
    best = min((abs(p.memory_gb - gb) for p in known), default=0.0)
    return [p for p in known if abs(p.memory_gb - gb) == best and best <= _CLOSE * p.memory_gb]
