"""What a process remembers of who had room: by flavor, and of so many flavors only."""

import pytest

from placement_sched.candidates.explain.memory import _KEPT, CapacityMemory
from placement_sched.model.placement.candidate import CandidateProvider, Candidates, Usages

FLAVOR = ((0, 2), (1, 4096))
FOUND = (CandidateProvider(7, "u", 3, "u", None), CandidateProvider(8, "v", None, "v", None))
STANDS = f"{7 * 2**31 + 3},{8 * 2**31}"


def test_each_flavor_is_known_by_itself_and_the_last_note_counts():
    memory = CapacityMemory()
    memory.note(FLAVOR, "1")
    memory.note(FLAVOR, "2,3")
    assert memory.known(FLAVOR) == "2,3"
    assert memory.known(((0, 2),)) == ""


def test_flavors_longest_unused_are_forgotten():
    memory = CapacityMemory()
    for amount in range(_KEPT):
        memory.note(((0, amount),), str(amount))
    memory.known(((0, 0),))
    memory.note(FLAVOR, "9")
    assert (memory.known(((0, 0),)), memory.known(((0, 1),)), memory.known(FLAVOR)) == (
        "0",
        "",
        "9",
    )


@pytest.mark.parametrize(("noted", "reported"), [("", STANDS), ("5", f"5,{STANDS}")])
def test_who_was_found_with_what_is_used_is_known_too(noted, reported):
    memory = CapacityMemory()
    memory.note(FLAVOR, noted)
    found = Candidates(providers=FOUND, usages=Usages(classes=(0, 1)))
    assert memory.known_with(FLAVOR, found) == reported


def test_a_random_sample_is_not_known():
    """The generation was read after the room."""
    assert CapacityMemory().known_with(FLAVOR, Candidates(providers=FOUND)) == ""
