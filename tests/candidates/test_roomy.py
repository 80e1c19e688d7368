"""What a process remembers of who had room: by flavor, and of so many flavors only."""

import pytest

from placement_sched.candidates.roomy import _KEPT, Roomy
from placement_sched.model.candidate import CandidateProvider, Candidates, Usages

FLAVOR = ((0, 2), (1, 4096))
FOUND = (CandidateProvider(7, "u", 3, "u", None), CandidateProvider(8, "v", None, "v", None))
STANDS = f"{7 * 2**31 + 3},{8 * 2**31}"


def test_each_flavor_is_known_by_itself_and_the_last_note_counts():
    roomy = Roomy()
    roomy.note(FLAVOR, "1")
    roomy.note(FLAVOR, "2,3")
    assert roomy.known(FLAVOR) == "2,3"
    assert roomy.known(((0, 2),)) == ""


def test_flavors_longest_unused_are_forgotten():
    roomy = Roomy()
    for amount in range(_KEPT):
        roomy.note(((0, amount),), str(amount))
    roomy.known(((0, 0),))
    roomy.note(FLAVOR, "9")
    assert (roomy.known(((0, 0),)), roomy.known(((0, 1),)), roomy.known(FLAVOR)) == ("0", "", "9")


@pytest.mark.parametrize(("noted", "told"), [("", STANDS), ("5", f"5,{STANDS}")])
def test_who_was_found_with_what_is_used_is_known_too(noted, told):
    roomy = Roomy()
    roomy.note(FLAVOR, noted)
    found = Candidates(providers=FOUND, usages=Usages(classes=(0, 1)))
    assert roomy.known_with(FLAVOR, found) == told


def test_who_was_drawn_by_lot_is_not():
    """The generation was read after the room."""
    assert Roomy().known_with(FLAVOR, Candidates(providers=FOUND)) == ""
