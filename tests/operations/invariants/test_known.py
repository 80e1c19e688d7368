"""Files of generations and of acknowledged writes are read as written; an error has its line."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.model.results.invariants import GenerationsSeen
from placement_sched.operations.invariants.known import (
    generation_lines,
    read_acknowledged,
    read_generations,
)
from tests.clouds import uuid_of

NOW = datetime.fromisoformat("2030-01-01T12:00:00")
CN1, CONSUMER = uuid_of("cn1"), uuid_of("consumer")
SEEN = GenerationsSeen({(1, CN1, NOW): 7}, {(3, CONSUMER, None): 1})
GENERATIONS = st.dictionaries(
    st.tuples(st.integers(1, 2**31), st.uuids().map(str), st.none() | st.datetimes()),
    st.integers(-1, 2**31),
    max_size=5,
)


@given(providers=GENERATIONS, consumers=GENERATIONS)
def test_generations_are_read_as_they_were_written(providers, consumers):
    seen = GenerationsSeen(providers, consumers)
    assert read_generations("file", generation_lines(seen, NOW)) == seen


def test_what_is_common_to_two_moments_is_counted():
    later = GenerationsSeen(SEEN.providers, {(3, CONSUMER, NOW + timedelta(1)): 1})
    assert (SEEN.common(SEEN), SEEN.common(later)) == (2, 1)


def lines_but(number, line):
    """Return the lines of a file, one of them (counted from 1) another; None is not there."""
    lines = list(generation_lines(SEEN, NOW))
    lines[number - 1 : number] = [] if line is None else [line]
    return lines


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "line 1: this is not a file that --snapshot wrote"),
        ([b"{}\n"], "line 1: this is not a file that --snapshot wrote"),
        (lines_but(1, b"PNG\xff"), "line 1: not JSON: "),
        (lines_but(2, b'{"provider": '), "line 2: not JSON: "),
        (lines_but(2, b"[]"), "line 2: expected a JSON object"),
        (lines_but(2, b'{"provider": "x"}'), "line 2: expected a provider or consumer with id"),
        (lines_but(3, b'{"id": 1}'), "line 3: expected a provider or consumer with id"),
        (lines_but(3, None), "line 2: 0 consumers follow, where the first line has 1"),
    ],
)
def test_what_is_wrong_in_a_file_of_generations_has_its_line(lines, words):
    with pytest.raises(Invalid) as refused:
        read_generations("old.json", lines)
    assert refused.value.detail.startswith(f"old.json: {words}")


def test_last_acknowledged_write_of_a_consumer_counts():
    lines = [
        b'{"consumer": "%s", "allocations": {}, "answered": false}' % CONSUMER.upper().encode(),
        b"",
        b'{"consumer": "%s", "allocations": {"%s": {"resources": {"VCPU": 2}}}}'
        % (CONSUMER.encode(), CN1.upper().encode()),
        b'{"consumer": "%s", "answered": false, "allocations": {}}' % CONSUMER.encode(),
    ]
    held = {(CN1, "VCPU"): 2}
    assert read_acknowledged("acks", lines).by_consumer == {CONSUMER: (held, {})}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nothing", "not JSON: "),
        (b'"x"', "expected a JSON object"),
        (b"{}", 'expected {"consumer": UUID, '),
        (b'{"consumer": "c"}', 'expected {"consumer": UUID, '),
        (b'{"consumer": 1, "allocations": {}}', 'expected {"consumer": UUID, '),
        (b'{"consumer": "c", "allocations": []}', 'expected {"consumer": UUID, '),
        (b'{"consumer": "c", "allocations": {"p": {"VCPU": 1}}}', 'expected {"consumer": UUID, '),
        (
            b'{"consumer": "c", "allocations": {"p": {"resources": {"VCPU": "1"}}}}',
            'expected {"consumer": UUID, ',
        ),
        (b'{"consumer": "c", "allocations": {}, "answered": 1}', 'expected {"consumer": UUID, '),
        (
            b'{"consumer": "c", "allocations": {}, "answer": true}',
            "'answer' is none of allocations, answered, consumer",
        ),
    ],
)
def test_what_is_wrong_in_a_file_of_writes_has_its_line(line, words):
    right = b'{"consumer": "c", "allocations": {}}'
    with pytest.raises(Invalid) as refused:
        read_acknowledged("acks", [right, b"  ", line])
    assert refused.value.detail.startswith(f"acks: line 3: {words}")
