"""The lint of words finds what it should, and lets plain English pass."""

import pytest

from tests.house.plain_words import PLACES, PLAIN, QUOTED, ROOT, found_in, texts


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
    assert {".py", ".rst", ".md", ".yaml"} <= {path.suffix for path in read}
