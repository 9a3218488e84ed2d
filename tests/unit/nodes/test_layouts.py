"""MIG layouts: legal places, and what fits on a card."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import layouts

PLACED = [card for card in layouts.CARDS if card.confidence is not layouts.Confidence.NAMES]
SEVEN_SLICES = [card for card in PLACED if card.grid_units == 8]
# The maximal layouts of the base profiles, as compute slices: NVIDIA's guide lists these twelve
# for every 7-slice card, and these four for the cards of four.
TWELVE = {
    (1, 1, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 2),
    (1, 1, 1, 2, 2),
    (1, 2, 2, 2),
    (1, 1, 1, 1, 3),
    (1, 1, 2, 3),
    (2, 2, 3),
    (3, 3),
    (1, 1, 1, 4),
    (1, 2, 4),
    (3, 4),
    (7,),
}
FOUR = {(1, 1, 1, 1), (1, 1, 2), (2, 2), (4,)}


def base_profiles(card: layouts.Card) -> dict[int, str]:
    """For each number of compute slices, the plain profile with the least memory."""
    plain = [each for each in card.profiles if each.name.endswith("gb")]
    return {
        each.compute_slices: each.name for each in sorted(plain, key=lambda each: -each.memory_gb)
    }


def fits(card: layouts.Card, mix: tuple[int, ...]) -> bool:
    names = base_profiles(card)
    try:
        layouts.pack(card.name, {names[slices]: mix.count(slices) for slices in set(mix)})
    except layouts.LayoutImpossible:
        return False
    return True


def maximal_mixes(card: layouts.Card) -> set[tuple[int, ...]]:
    kinds = sorted(base_profiles(card))
    possible = {
        mix
        for length in range(1, 8)
        for mix in itertools.combinations_with_replacement(kinds, length)
        if sum(mix) <= 8 and fits(card, mix)
    }
    return {
        mix for mix in possible if not any(tuple(sorted((*mix, one))) in possible for one in kinds)
    }


@pytest.mark.rule("N10")
@pytest.mark.parametrize("card", PLACED, ids=lambda card: card.name)
def test_the_maximal_layouts_are_those_of_the_guide(card: layouts.Card) -> None:
    assert maximal_mixes(card) == (TWELVE if card.grid_units == 8 else FOUR)


@pytest.mark.rule("N10")
@pytest.mark.parametrize("card", SEVEN_SLICES, ids=lambda card: card.name)
def test_two_of_three_slices_leave_no_place_for_a_seventh(card: layouts.Card) -> None:
    names = base_profiles(card)

    with pytest.raises(layouts.LayoutImpossible, match=f"2 x {names[3]}"):
        layouts.pack(card.name, {names[3]: 2, names[1]: 1})


@pytest.mark.rule("N10")
@pytest.mark.parametrize("card", PLACED, ids=lambda card: card.name)
def test_every_place_of_every_profile_is_on_the_grid(card: layouts.Card) -> None:
    for profile in card.profiles:
        assert profile.starts, profile.name
        assert all(0 <= start <= card.grid_units - profile.size for start in profile.starts)
        assert len({start // profile.size for start in profile.starts}) >= profile.max_count


@pytest.mark.parametrize("card", layouts.CARDS, ids=lambda card: card.name)
def test_every_card_says_where_its_facts_come_from(card: layouts.Card) -> None:
    assert card.source
    assert len({profile.name for profile in card.profiles}) == len(card.profiles)
    assert all(profile.memory_gb <= card.memory_gib for profile in card.profiles)


@pytest.mark.rule("N10")
def test_seven_small_instances_take_the_first_seven_slices() -> None:
    placed = layouts.pack("H100", {"1g.10gb": 7})

    assert [each.start for each in placed] == list(range(7))
    with pytest.raises(layouts.LayoutImpossible):
        layouts.pack("H100", {"1g.10gb": 8})


@pytest.mark.rule("N10")
def test_a_pinned_instance_stays_where_it_is() -> None:
    placed = layouts.pack("H100", {"3g.40gb": 1, "1g.10gb": 3}, pinned=[("3g.40gb", 0)])

    assert [(each.profile, each.start) for each in placed] == [
        ("3g.40gb", 0),
        ("1g.10gb", 4),
        ("1g.10gb", 5),
        ("1g.10gb", 6),
    ]


@pytest.mark.rule("N10")
def test_where_an_instance_sits_decides_what_else_fits() -> None:
    mix = {"3g.40gb": 1, "1g.10gb": 4}

    assert layouts.pack("H100", mix)[-1] == layouts.Placement(4, "3g.40gb", 4)
    with pytest.raises(layouts.LayoutImpossible):
        layouts.pack("H100", mix, pinned=[("3g.40gb", 0)])


@pytest.mark.parametrize(
    "pinned",
    [
        [("3g.40gb", 2)],
        [("1g.10gb", 0), ("1g.10gb", 0)],
        [("3g.40gb", 0), ("1g.10gb", 3)],
        [("2g.20gb", 0)],
    ],
)
def test_what_cannot_be_pinned_is_refused(pinned: list[tuple[str, int]]) -> None:
    with pytest.raises(layouts.LayoutImpossible):
        layouts.pack("H100", {"3g.40gb": 1, "1g.10gb": 1}, pinned=pinned)


@pytest.mark.parametrize(
    ("layout", "legal"),
    [
        ([], True),
        ([("1g.10gb", 6)], True),
        ([("1g.10gb", 7)], False),
        ([("2g.20gb", 1)], False),
        ([("3g.40gb", 0), ("3g.40gb", 4)], True),
        ([("3g.40gb", 0), ("4g.40gb", 0)], False),
        ([("4g.40gb", 0), ("3g.40gb", 4)], True),
        ([("7g.80gb", 0), ("1g.10gb", 0)], False),
        ([("1g.10gb+me", 0), ("1g.10gb+me", 1)], False),
        ([("1g.10gb+me", 0), ("1g.10gb", 1)], True),
        ([("1g.5gb", 0)], False),
    ],
)
def test_a_layout_is_legal_when_every_place_is_and_none_overlap(
    layout: list[tuple[str, int]], legal: bool
) -> None:
    assert layouts.is_legal("H100", layout) is legal


@pytest.mark.rule("N10")
def test_the_media_engines_of_a_card_go_to_one_instance() -> None:
    assert not layouts.is_legal("A30", [("1g.6gb+me", 0), ("2g.12gb+me", 2)])
    assert layouts.is_legal("A30", [("1g.6gb", 0), ("2g.12gb+me", 2)])


@pytest.mark.parametrize(
    ("model_class", "memory_mib", "card"),
    [
        ("A100", None, "A100-80GB"),
        ("A100", 40_960, "A100-40GB"),
        ("A100-40GB", None, "A100-40GB"),
        ("H100", 81_559, "H100-80GB"),
        ("H100", 95_830, "H100-94GB"),
        ("H200", 143_771, "H200-141GB"),
        ("A30", 24_576, "A30-24GB"),
        ("RTX PRO 6000", 97_887, "RTX PRO 6000-96GB"),
    ],
)
def test_memory_tells_the_cards_of_one_class_apart(
    model_class: str, memory_mib: int | None, card: str
) -> None:
    assert layouts.card(model_class, memory_mib=memory_mib).name == card


def test_unknown_cards_and_profiles_are_named() -> None:
    with pytest.raises(layouts.UnknownCard, match="L40S"):
        layouts.profiles("L40S")
    with pytest.raises(layouts.UnknownCard, match="1024 MiB"):
        layouts.card("A100", memory_mib=1024)
    with pytest.raises(layouts.UnknownProfile, match=r"no MIG profile 1g\.5gb; it has 1g\.10gb"):
        layouts.placements("H100", "1g.5gb")


def test_a_card_of_which_only_names_are_known_is_never_cut() -> None:
    assert layouts.placements("GB200", "1g.23gb") == ()
    assert not layouts.is_legal("GB200", [("1g.23gb", 0)])
    with pytest.raises(layouts.LayoutImpossible):
        layouts.pack("GB200", {"1g.23gb": 1})


@given(card=st.sampled_from(PLACED), data=st.data())
def test_whatever_is_packed_is_legal_and_shares_no_slice(
    card: layouts.Card, data: st.DataObject
) -> None:
    names = st.sampled_from([profile.name for profile in card.profiles])
    counts = data.draw(st.dictionaries(names, st.integers(0, 3), max_size=4))
    try:
        placed = layouts.pack(card.name, counts)
    except layouts.LayoutImpossible:
        assert sum(counts.values()) > 1
        return

    slices = [unit for each in placed for unit in range(each.start, each.start + each.size)]
    assert len(slices) == len(set(slices))
    assert all(0 <= unit < card.grid_units for unit in slices)
    assert layouts.is_legal(card.name, [(each.profile, each.start) for each in placed])
    assert len(placed) == sum(counts.values())


@given(card=st.sampled_from(PLACED), data=st.data())
def test_a_legal_layout_can_always_be_packed(card: layouts.Card, data: st.DataObject) -> None:
    """Liveness: `pack` finds a place for every mix that has one."""
    pairs = [(profile.name, start) for profile in card.profiles for start in profile.starts]
    chosen: list[tuple[str, int]] = []
    for pair in data.draw(st.lists(st.sampled_from(pairs), max_size=12)):
        if layouts.is_legal(card.name, [*chosen, pair]):
            chosen.append(pair)
    counts = {name: sum(each == name for each, _ in chosen) for name, _ in chosen}

    assert len(layouts.pack(card.name, counts)) == len(chosen)
    assert {
        (each.profile, each.start) for each in layouts.pack(card.name, counts, pinned=chosen)
    } == set(chosen)


@given(st.dictionaries(st.sampled_from(["1g.10gb", "3g.40gb"]), st.integers(-9, 10**9)))
def test_any_count_is_answered_at_once(counts: dict[str, int]) -> None:
    if all(count <= 1 for count in counts.values()):
        assert len(layouts.pack("H100", counts)) == sum(max(each, 0) for each in counts.values())
    elif counts.get("1g.10gb", 0) > 7:
        with pytest.raises(layouts.LayoutImpossible):
            layouts.pack("H100", counts)
