"""Which MIG instances a card can be cut into, and where (N10). Pure: no database, no Django.

A card's memory is a grid of slices. A profile takes ``size`` slices from one of its legal
``starts``; a layout is legal when no two instances share a slice and no profile is over its
maximum. Counting compute slices is not enough: on a 7-slice card ``3g`` takes four of the eight
memory slices, so 2 x 3g fills the grid and a further 1g, for which a compute slice is free, has
nowhere to go.

The shapes come from ``nvidia-smi mig -lgip`` transcripts and NVIDIA's MIG guide; each card says
which (``confidence``). Where only the names of the profiles are published, the card has no
placements here and everything but `profiles` refuses it. Memory in GiB and multiprocessors are
not here on purpose: they vary by driver version and are read from the card.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """Where a card's placements come from."""

    TRANSCRIPT = "transcript"  # seen in the output of a real driver
    GUIDE = "guide"  # NVIDIA's guide says so; no raw output seen
    NAMES = "names"  # only the profiles' names are published


class UnknownCard(LookupError):
    """No MIG layouts are known for this card."""


class UnknownProfile(LookupError):
    """The card has no such MIG profile."""


class LayoutImpossible(ValueError):
    """The card cannot be cut into these instances."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of instance: its name says compute slices and memory (``3g.40gb``)."""

    name: str
    profile_id: int | None
    starts: tuple[int, ...]
    size: int
    max_count: int

    @property
    def compute_slices(self) -> int:
        return int(self.name.partition("g.")[0])

    @property
    def memory_gb(self) -> int:
        match = re.match(r"\d+g\.(\d+)gb", self.name)
        assert match is not None, f"{self.name} is no MIG profile name"
        return int(match[1])

    @property
    def takes_media_engines(self) -> bool:
        """Whether it takes engines of which the card has too few for two such instances."""
        return "+me" in self.name


@dataclass(frozen=True, slots=True)
class Card:
    """One memory variant of a model, with its grid and profiles."""

    name: str
    model_class: str
    memory_gib: int
    grid_units: int
    profiles: tuple[Profile, ...]
    confidence: Confidence
    source: str


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """One instance at its place."""

    start: int
    profile: str
    size: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """A row shared by all cards of one grid: what a profile is, whatever its memory is called."""

    profile_id: int
    starts: tuple[int, ...]
    size: int
    max_count: int


# The seven profiles of every 7-slice card, in the order of the names given to `_seven_slices`.
_SEVEN_SLICE_SHAPES = (
    _Shape(19, (0, 1, 2, 3, 4, 5, 6), 1, 7),  # 1g
    _Shape(20, (0, 1, 2, 3, 4, 5, 6), 1, 1),  # 1g+me
    _Shape(15, (0, 2, 4, 6), 2, 4),  # 1g with twice the memory
    _Shape(14, (0, 2, 4), 2, 3),  # 2g
    _Shape(9, (0, 4), 4, 2),  # 3g
    _Shape(5, (0,), 4, 1),  # 4g
    _Shape(0, (0,), 8, 1),  # 7g
)


def _seven_slices(
    name: str, memory_gib: int, names: str, confidence: Confidence, source: str
) -> Card:
    profiles = tuple(
        Profile(profile, shape.profile_id, shape.starts, shape.size, shape.max_count)
        for profile, shape in zip(names.split(), _SEVEN_SLICE_SHAPES, strict=True)
    )
    model_class = name.partition("-")[0]
    return Card(name, model_class, memory_gib, 8, profiles, confidence, source)


def _names_only(name: str, memory_gib: int, names: str, source: str) -> Card:
    profiles = tuple(Profile(profile, None, (), 0, 0) for profile in names.split())
    model_class = name.partition("-")[0]
    return Card(name, model_class, memory_gib, 0, profiles, Confidence.NAMES, source)


_A30 = Card(
    "A30-24GB",
    "A30",
    24,
    4,
    (
        Profile("1g.6gb", 14, (0, 1, 2, 3), 1, 4),
        Profile("1g.6gb+me", 21, (0, 1, 2, 3), 1, 1),
        Profile("2g.12gb", 5, (0, 2), 2, 2),
        Profile("2g.12gb+me", 6, (0, 2), 2, 1),
        Profile("4g.24gb", 0, (0,), 4, 1),
    ),
    Confidence.TRANSCRIPT,
    "nvidia-smi mig -lgip",
)

_RTX_PRO_6000 = Card(
    "RTX PRO 6000-96GB",
    "RTX PRO 6000",
    96,
    12,
    (
        Profile("1g.24gb", 14, (0, 3, 6, 9), 3, 4),
        Profile("1g.24gb+me", 21, (0, 3, 6, 9), 3, 1),
        Profile("1g.24gb+gfx", 47, (0, 3, 6, 9), 3, 4),
        Profile("1g.24gb+me.all", 65, (0, 3, 6, 9), 3, 1),
        Profile("1g.24gb-me", 67, (0, 3, 6, 9), 3, 4),
        Profile("2g.48gb", 5, (0, 6), 6, 2),
        Profile("2g.48gb+gfx", 35, (0, 6), 6, 2),
        Profile("2g.48gb+me.all", 64, (0, 6), 6, 1),
        Profile("2g.48gb-me", 66, (0, 6), 6, 2),
        Profile("4g.96gb", 0, (0,), 12, 1),
        Profile("4g.96gb+gfx", 32, (0,), 12, 1),
    ),
    Confidence.TRANSCRIPT,
    "nvidia-smi mig -lgip",
)

_GUIDE = "NVIDIA MIG User Guide (r580, r590)"
_MIG_PARTED = "NVIDIA mig-parted, config-default.yaml"

# A model class without its memory ("H100") means the first card of that class.
CARDS: tuple[Card, ...] = (
    _seven_slices(
        "A100-80GB",
        80,
        "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
        Confidence.TRANSCRIPT,
        f"{_GUIDE}; same grid as the A100-40GB transcript",
    ),
    _seven_slices(
        "A100-40GB",
        40,
        "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
        Confidence.TRANSCRIPT,
        f"{_GUIDE}; nvidia-smi mig -lgip",
    ),
    _A30,
    _seven_slices(
        "H100-80GB",
        80,
        "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
        Confidence.TRANSCRIPT,
        f"{_GUIDE}; nvidia-smi mig -lgip; capture of an H100 in MIG mode",
    ),
    _seven_slices(
        "H100-94GB",
        94,
        "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
        Confidence.TRANSCRIPT,
        f"{_GUIDE}; nvidia-smi mig -lgip for 3g, 4g and 7g",
    ),
    _seven_slices(
        "GH200-96GB",
        96,
        "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
        Confidence.GUIDE,
        f"{_GUIDE}; {_MIG_PARTED}",
    ),
    _seven_slices(
        "H20-96GB",
        96,
        "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
        Confidence.GUIDE,
        f"{_GUIDE}; {_MIG_PARTED}",
    ),
    _seven_slices(
        "H200-141GB",
        141,
        "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
        Confidence.GUIDE,
        f"{_GUIDE}; capture of an H200 in MIG mode names three of them",
    ),
    _seven_slices(
        "B200-180GB",
        180,
        "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
        Confidence.GUIDE,
        _GUIDE,
    ),
    _RTX_PRO_6000,
    _names_only(
        "RTX PRO 5000-48GB",
        48,
        "1g.12gb 1g.12gb+me 1g.12gb+gfx 1g.12gb-me 2g.24gb-me 4g.48gb 4g.48gb+gfx",
        _GUIDE,
    ),
    _names_only(
        "GB200-186GB", 186, "1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb", _MIG_PARTED
    ),
    _names_only(
        "B300-269GB", 269, "1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb", _MIG_PARTED
    ),
)

# How far the memory a driver reports may be from the name's, in GiB: reserved memory, GiB and GB.
_MEMORY_TOLERANCE = 0.09


def card(model_class: str, *, memory_mib: int | None = None) -> Card:
    """The card of this name (``A100-40GB``) or class (``A100``), of about this much memory.

    Without ``memory_mib`` a class means its first card in `CARDS`.
    Raises: UnknownCard.
    """
    found = [known for known in CARDS if model_class in (known.name, known.model_class)]
    if memory_mib is not None:
        found = [known for known in found if _is_about(memory_mib / 1024, known.memory_gib)]
        found.sort(key=lambda known: abs(known.memory_gib - memory_mib / 1024))
    if not found:
        amount = "" if memory_mib is None else f" with {memory_mib} MiB"
        raise UnknownCard(f"No MIG layouts are known for a {model_class}{amount}")
    return found[0]


def profiles(model_class: str, *, memory_mib: int | None = None) -> tuple[Profile, ...]:
    """Every profile of the card. Raises: UnknownCard."""
    return card(model_class, memory_mib=memory_mib).profiles


def profile(model_class: str, name: str, *, memory_mib: int | None = None) -> Profile:
    """The profile of this name. Raises: UnknownCard, UnknownProfile."""
    return _profile(card(model_class, memory_mib=memory_mib), name)


def placements(
    model_class: str, name: str, *, memory_mib: int | None = None
) -> tuple[Placement, ...]:
    """Every place an instance of this profile may have on an empty card.

    Raises: UnknownCard, UnknownProfile.
    """
    found = profile(model_class, name, memory_mib=memory_mib)
    return tuple(Placement(start, found.name, found.size) for start in found.starts)


def is_legal(
    model_class: str, layout: Sequence[tuple[str, int]], *, memory_mib: int | None = None
) -> bool:
    """Whether these (profile, start) pairs can exist on one card together.

    A profile the card does not have makes a layout illegal. Raises: UnknownCard.
    """
    found = card(model_class, memory_mib=memory_mib)
    known = {candidate.name: candidate for candidate in found.profiles}
    if any(name not in known or start not in known[name].starts for name, start in layout):
        return False
    chosen = [(known[name], start) for name, start in layout]
    return not _overlaps(chosen) and not _exceeds_counts([each for each, _ in chosen])


def pack(
    model_class: str,
    counts: Mapping[str, int],
    *,
    pinned: Sequence[tuple[str, int]] = (),
    memory_mib: int | None = None,
) -> tuple[Placement, ...]:
    """A legal layout of so many instances of each profile, by start; always the same one.

    ``pinned`` instances are part of ``counts`` and stay where they are.
    Raises: UnknownCard, UnknownProfile, LayoutImpossible.
    """
    found = card(model_class, memory_mib=memory_mib)
    fixed = [(_profile(found, name), start) for name, start in pinned]
    open_counts = Counter({name: count for name, count in counts.items() if count > 0})
    open_counts.subtract(name for name, _ in pinned)
    legal = is_legal(model_class, pinned, memory_mib=memory_mib)
    if not legal or min(open_counts.values(), default=0) < 0:
        raise LayoutImpossible(f"A {found.name} cannot have {_words(pinned)} pinned")

    wanted = [_profile(found, name) for name, count in open_counts.items() for _ in _bounded(count)]
    # The fewest choices first: one that fails there fails at once.
    wanted.sort(key=lambda each: (-each.size, len(each.starts), each.name))
    solved = None
    if not _exceeds_counts([each for each, _ in fixed] + wanted):
        solved = _solve(fixed, wanted, _slices(fixed))
    if solved is None:
        mix = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
        raise LayoutImpossible(f"A {found.name} cannot be cut into {mix}")
    return tuple(sorted(Placement(start, each.name, each.size) for each, start in solved))


_Chosen = list[tuple[Profile, int]]


def _solve(chosen: _Chosen, wanted: list[Profile], taken: frozenset[int]) -> _Chosen | None:
    if not wanted:
        return chosen
    first, rest = wanted[0], wanted[1:]
    for start in first.starts:
        slices = frozenset(range(start, start + first.size))
        if slices & taken:
            continue
        solved = _solve([*chosen, (first, start)], rest, taken | slices)
        if solved is not None:
            return solved
    return None


def _slices(chosen: _Chosen) -> frozenset[int]:
    return frozenset(unit for each, start in chosen for unit in range(start, start + each.size))


def _overlaps(chosen: _Chosen) -> bool:
    return len(_slices(chosen)) < sum(each.size for each, _ in chosen)


def _exceeds_counts(chosen: Sequence[Profile]) -> bool:
    counts = Counter(chosen)
    if any(count > each.max_count for each, count in counts.items()):
        return True
    # The published maxima are for each profile alone; that media engines also exclude each other
    # across profiles is the careful reading, since `+me` exists once on a card.
    return sum(each.takes_media_engines for each in chosen) > 1


def _bounded(count: int) -> range:
    """No card has more than 64 instances, so a count from outside never costs more than that."""
    return range(min(count, 64))


def _profile(found: Card, name: str) -> Profile:
    for candidate in found.profiles:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in found.profiles)
    raise UnknownProfile(f"A {found.name} has no MIG profile {name}; it has {names}")


def _is_about(gib: float, named: int) -> bool:
    return abs(gib - named) <= named * _MEMORY_TOLERANCE


def _words(layout: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} at {start}" for name, start in layout) or "nothing"
