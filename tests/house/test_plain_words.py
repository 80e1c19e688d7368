"""The lint of words finds what it should, and lets plain English pass."""

import pytest

from tests.house.plain_words import PLACES, PLAIN, QUOTED, ROOT, SUFFIXES, found_in, names, texts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the host is told of it", ["told"]),
        ("def _told(answer):", ["told"]),
        ("told_names = 1", ["told"]),
        ("Nobody heeds it anew", ["Nobody", "heeds", "anew"]),
        ("X is no boolean", ["is no"]),
        ("there is no such host, and it is no longer there", []),
        ("begin behind the marker", ["behind"]),
        ("workers behind a reverse proxy", []),
        ("provider_unheeded, sifting, dearer", ["unheeded", "sifting", "dearer"]),
        ("Who wants that: only who may, for who asks", ["Who wants", "only who", "for who"]),
        ("those who want it, which is none of these, where there is none", []),
        ("a text that is none is not taken, and not taken for one", ["is none", "is not taken"]),
        ("it takes note of rivals", ["takes note", "rivals"]),
        ("an intelligible retold story of dearth", []),
        (f"the code {next(iter(QUOTED))}", []),
    ],
)
def test_words_are_found_also_inside_of_names(text, found):
    assert [word for _, word, _ in found_in(text)] == found


def test_the_place_and_the_plain_word_are_given():
    assert list(found_in("a\nwhoever comes")) == [(2, "whoever", PLAIN["who(?:so)?ever"])]


def test_messages_guide_reference_and_notes_are_all_read():
    read = list(texts())
    assert [
        place for place in PLACES if not any(path.is_relative_to(ROOT / place) for path in read)
    ] == []
    assert {path.suffix for path in read} == SUFFIXES


def test_names_of_tests_and_of_notes_are_read():
    folders = {name.parts[0] for name in names()}
    assert {"tests", "releasenotes", "placement_sched"} <= folders
