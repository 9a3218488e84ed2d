"""Desired × actual → steps: what an agent may never do, and what it does in the end."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bettercompute.agent import atoms as atom_names
from bettercompute.agent import steps
from bettercompute.agent.atoms import Atoms
from bettercompute.agent.inventory import Gpu, HostInventory, MigInstance, MigMode
from bettercompute.agent.steps import Bind, Host, Reason, Refuse, Said, Say, Unbind
from nodes.protocol.messages import Assignment, Limits

GIB = 2**30


def gpu(uuid, index=0, **more):
    return Gpu(
        uuid=uuid,
        index=index,
        model="NVIDIA H100",
        model_class="H100",
        memory_mib=81_559,
        pci_bus_id="0",
        **more,
    )


def instance(uuid, start, profile="1g.10gb"):
    return MigInstance(
        atom_id=f"{uuid}/m{start}-{profile}", profile=profile, start=start, size=1, memory_mib=9_984
    )


INVENTORY = HostInventory(
    memory_gib=100,
    gpus=(
        gpu("GPU-a"),
        gpu("GPU-b", 1),
        gpu(
            "GPU-m",
            2,
            mig=MigMode.ENABLED,
            mig_instances=(instance("GPU-m", 0), instance("GPU-m", 1)),
        ),
    ),
)
HOST = Host(atoms=Atoms(INVENTORY), memory_gib=INVENTORY.memory_gib)


def assignment(name, *devices, gib=0, binding="hold", until=0):
    return Assignment(
        allocation_id=name,
        device_ids=list(devices),
        until=until,
        binding=binding,
        limits=Limits(memory_bytes=gib * GIB),
    )


def plan(desired=(), *, held=(), said=None, ending=()):
    return steps.plan(
        desired=list(desired),
        ending=list(ending),
        held={each.allocation_id: each for each in held},
        said=said or {},
        host=HOST,
    )


def test_a_new_assignment_is_bound():
    wanted = assignment("alloc_1", "GPU-a")
    assert plan([wanted]) == [Bind(wanted)]


def test_what_is_held_reported_and_wanted_needs_nothing():
    wanted = assignment("alloc_1", "GPU-a")
    assert plan([wanted], held=[wanted], said={"alloc_1": Said.BOUND}) == []


def test_a_longer_window_does_not_touch_the_hold():
    held = assignment("alloc_1", "GPU-a", until=1)
    wanted = assignment("alloc_1", "GPU-a", until=2)
    assert plan([wanted], held=[held], said={"alloc_1": Said.BOUND}) == []


def test_other_limits_write_the_hold_again():
    held = assignment("alloc_1", "GPU-a", gib=1)
    wanted = assignment("alloc_1", "GPU-a", gib=2)
    assert plan([wanted], held=[held], said={"alloc_1": Said.BOUND}) == [Bind(wanted)]


@pytest.mark.rule("N15")
def test_after_a_restart_a_wanted_hold_is_written_again_and_reported():
    wanted = assignment("alloc_1", "GPU-a")
    assert plan([wanted], held=[wanted]) == [Bind(wanted)]


@pytest.mark.rule("N15")
def test_after_a_restart_a_hold_that_nobody_wants_is_let_go():
    assert plan(held=[assignment("alloc_1", "GPU-a")]) == [Unbind("alloc_1")]


def test_devices_change_hands_in_one_look():
    old, new = assignment("alloc_1", "GPU-a"), assignment("alloc_2", "GPU-a")
    assert plan([new], held=[old]) == [Unbind("alloc_1"), Bind(new)]


@pytest.mark.rule("R26")
def test_a_lost_hold_is_told_and_made_again():
    wanted = assignment("alloc_1", "GPU-a")
    found = plan([wanted], said={"alloc_1": Said.BOUND})
    assert found == [Say("alloc_1", Reason.LOST), Bind(wanted)]


@pytest.mark.rule("R35")
def test_an_ending_that_is_not_held_is_confirmed_once():
    assert plan(ending=["alloc_1"]) == [Say("alloc_1", Reason.ENDED)]
    assert plan(ending=["alloc_1"], said={"alloc_1": Said.RELEASED}) == []


def test_an_ending_that_is_still_listed_as_wanted_stays():
    wanted = assignment("alloc_1", "GPU-a")
    said = {"alloc_1": Said.BOUND}
    assert plan([wanted], held=[wanted], said=said, ending=["alloc_1"]) == []


@pytest.mark.rule("C15")
@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ("GPU-a", "GPU-a"),
        ("GPU-a", "GPU-a/s0"),
        ("GPU-a/s0", "GPU-a"),
        ("GPU-m/m0-1g.10gb", "GPU-m/m0-1g.10gb"),
    ],
)
@pytest.mark.case(11, 12)
def test_an_assignment_that_overlaps_a_hold_is_refused(held, wanted):
    kept = assignment("alloc_1", held)
    rival = assignment("alloc_2", wanted)
    found = plan([kept, rival], held=[kept], said={"alloc_1": Said.BOUND})
    assert found == [Refuse("alloc_2", Reason.OVERLAP, f"{wanted} is held by alloc_1")]


def test_parts_of_one_gpu_do_not_overlap():
    kept, other = assignment("alloc_1", "GPU-a/s0"), assignment("alloc_2", "GPU-a/s1")
    assert plan([kept, other], held=[kept], said={"alloc_1": Said.BOUND}) == [Bind(other)]


@pytest.mark.rule("C15")
def test_of_two_new_assignments_for_one_device_one_is_bound():
    first, second = assignment("alloc_1", "GPU-a"), assignment("alloc_2", "GPU-a", "GPU-b")
    assert [type(step) for step in plan([second, first])] == [Bind, Refuse]


@pytest.mark.rule("N14")
@pytest.mark.parametrize("device", ["GPU-z", "GPU-m", "GPU-m/s0", "GPU-m/m5-1g.10gb", "GPU-a/s01"])
def test_a_device_that_is_not_handed_out_here_is_refused(device):
    (step,) = plan([assignment("alloc_1", device)])
    assert step.reason is Reason.UNKNOWN_DEVICE


@pytest.mark.rule("N14")
def test_memory_is_never_promised_twice():
    held = assignment("alloc_1", "GPU-a", gib=60)
    (step,) = plan([held, assignment("alloc_2", "GPU-b", gib=41)], held=[held], said=BOUND_1)
    assert step.reason is Reason.RESOURCES_EXHAUSTED
    (step,) = plan([held, assignment("alloc_2", "GPU-b", gib=40)], held=[held], said=BOUND_1)
    assert isinstance(step, Bind)


BOUND_1 = {"alloc_1": Said.BOUND}


def test_a_binding_of_a_kind_that_this_agent_does_not_know_is_refused():
    (step,) = plan([assignment("alloc_1", "GPU-a", binding="kubernetes")])
    assert step.reason is Reason.UNSUPPORTED_BINDING


def test_a_hold_that_cannot_become_what_is_wanted_is_let_go_before_it_is_refused():
    held, wanted = assignment("alloc_1", "GPU-a"), assignment("alloc_1", "GPU-z")
    assert [type(step) for step in plan([wanted], held=[held])] == [Unbind, Refuse]


def test_a_refusal_is_said_once():
    assert plan([assignment("alloc_1", "GPU-z")], said={"alloc_1": Said.FAILED}) == []


# --- for any history ------------------------------------------------------------------------------

DEVICES = [
    "GPU-a",
    "GPU-a/s0",
    "GPU-a/s1",
    "GPU-b",
    "GPU-m/m0-1g.10gb",
    "GPU-m/m1-1g.10gb",
    "GPU-z",
]
NAMES = [f"alloc_{number}" for number in range(6)]

one_assignment = st.builds(
    lambda devices, gib: (devices, gib),
    st.lists(st.sampled_from(DEVICES), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 30, 80]),
)
many = st.dictionaries(st.sampled_from(NAMES), one_assignment, max_size=6)


def built(chosen):
    return [assignment(name, *devices, gib=gib) for name, (devices, gib) in chosen.items()]


class Node:
    """A node that does every step at once."""

    def __init__(self):
        self.held = {}
        self.said = {}

    def do(self, step):
        match step:
            case Bind(wanted):
                self.held[wanted.allocation_id] = wanted
                self.said[wanted.allocation_id] = Said.BOUND
            case Unbind(name):
                del self.held[name]
                self.said[name] = Said.RELEASED
            case Say(name, _):
                self.said[name] = Said.RELEASED
            case Refuse(name, _, _):
                self.said[name] = Said.FAILED

    def converge(self, desired, ending=()):
        """Plan afresh after each step, as the agent does; answers the steps."""
        done = []
        for _ in range(100):
            planned = steps.plan(
                desired=desired, ending=ending, held=self.held, said=self.said, host=HOST
            )
            if not planned:
                return done
            self.do(planned[0])
            done.append(planned[0])
            self.check(desired)
        raise AssertionError(f"no end: {done[-4:]}")

    def check(self, desired):
        """Safety, after every single step."""
        for one, other in itertools.combinations(self.held.values(), 2):
            for mine, theirs in itertools.product(one.device_ids, other.device_ids):
                assert not atom_names.overlap(mine, theirs), (one, other)
        assert sum(each.limits.memory_bytes for each in self.held.values()) <= 100 * GIB


@pytest.mark.rule("C15")
@settings(max_examples=300, deadline=None)
@given(st.lists(many, min_size=1, max_size=5))
@pytest.mark.case(12)
def test_safety_no_history_of_desired_states_ever_holds_silicon_twice(history):
    node = Node()
    for chosen in history:
        node.converge(built(chosen))


@settings(max_examples=300, deadline=None)
@given(st.lists(many, min_size=1, max_size=4), st.sets(st.sampled_from(NAMES)), st.data())
def test_liveness_in_the_end_all_that_is_held_is_wanted_and_all_is_told(history, losable, data):
    node = Node()
    for chosen in history:
        desired = built(chosen)
        wanted = {each.allocation_id for each in desired}
        node.converge(desired, ending=[name for name in NAMES if name not in wanted])
        assert node.held.keys() <= wanted
        for name in NAMES:
            if name in node.held:
                assert node.said[name] is Said.BOUND
            elif name in wanted:
                assert node.said[name] is Said.FAILED
            else:
                assert node.said[name] is Said.RELEASED
        for name in losable & node.held.keys():
            del node.held[name]  # somebody removed the spec
        if data.draw(st.booleans()):
            node.said.clear()  # the agent restarted


@settings(max_examples=200, deadline=None)
@given(many, many)
def test_safety_nothing_is_let_go_that_is_wanted_as_it_is(first, second):
    node = Node()
    node.converge(built(first))
    before = dict(node.held)
    desired = built(second)
    done = node.converge(desired)
    let_go = {step.allocation_id for step in done if isinstance(step, Unbind)}
    wanted = {each.allocation_id: each for each in desired}
    assert let_go >= before.keys() - wanted.keys()
    assert not [name for name in let_go if before[name] == wanted.get(name)]


@pytest.mark.rule("C28")
@settings(max_examples=100, deadline=None)
@given(st.lists(many, min_size=1, max_size=3), st.data())
def test_a_desired_state_that_comes_again_does_and_says_nothing_more(history, data):
    """A poll's answer was lost, or another gateway gives it again: the whole state, once more."""
    once, often = Node(), Node()
    for chosen in history:
        desired = built(chosen)
        done = once.converge(desired)
        repeated = often.converge(desired)
        for _ in range(data.draw(st.integers(1, 3))):
            assert often.converge(desired) == []
        assert repeated == done
    assert (often.held, often.said) == (once.held, once.said)


SOME = st.sets(st.sampled_from(NAMES), max_size=4)


@pytest.mark.rule("C28")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(DEVICES[:-1]), min_size=6, max_size=6), SOME, SOME)
def test_an_older_desired_state_that_comes_late_leaves_nothing_behind(devices, older, newer):
    """An allocation is the same whenever it comes; each state is whole, so the last one decides."""
    known = {name: assignment(name, device) for name, device in zip(NAMES, devices, strict=True)}
    straight, late = Node(), Node()
    straight.converge([known[name] for name in sorted(newer)])
    for names in (older, newer, older, newer):
        late.converge([known[name] for name in sorted(names)])
        assume(Said.FAILED not in late.said.values())  # both can be held as they are
    assert late.held == straight.held
