# SPDX-License-Identifier: Apache-2.0
"""First words of error details, compared with OpenStack's placement.

Clients match these words. ``phrases/`` has a file for each noun of the API. A row has a request to
the cloud of ``setup.json``, the status, and the first words of both details. A row whose sentences
soon differ has the reason in ``why``.
"""

import json
from pathlib import Path

import pytest

from tests.differential.exchange import build_request_from_json
from tests.differential.state import clear_service_state

pytestmark = pytest.mark.system

ERROR_PHRASES_FOLDER = Path(__file__).parent / "phrases"
SETUP_REQUESTS = json.loads((ERROR_PHRASES_FOLDER / "setup.json").read_text())
ERROR_PHRASE_ROWS = [
    pytest.param(row, id=f"{path.stem}: {row['case']}")
    for path in sorted(ERROR_PHRASES_FOLDER.glob("*.json"))
    if path.stem != "setup"
    for row in json.loads(path.read_text())
]
#: Minimum number of equal words in a row without ``why``.
MIN_EQUAL_WORDS = 3


@pytest.fixture(scope="module")
def prepared_placement_sides(placement_sides):
    for side in placement_sides:
        clear_service_state(side)
    placement_sides[1].delete_consumers_without_allocations()
    for saved in SETUP_REQUESTS:
        for side in placement_sides:
            reply = side.send_request(build_request_from_json(saved))
            assert reply.status < 300, reply.body
    yield placement_sides
    for side in placement_sides:
        clear_service_state(side)


@pytest.mark.parametrize("row", ERROR_PHRASE_ROWS)
def test_error_detail_begins_with_the_same_words_as_that_of_the_peer(prepared_placement_sides, row):
    ours, theirs = (
        side.send_request(build_request_from_json(row)) for side in prepared_placement_sides
    )
    prepared_placement_sides[1].delete_consumers_without_allocations()
    assert (ours.status, theirs.status) == (row["status"], row["status"])
    assert remove_message_prefix(ours).startswith(row["begins"])
    assert remove_message_prefix(theirs).startswith(row["begins"])
    assert "why" in row or len(row["begins"].split()) >= MIN_EQUAL_WORDS


def remove_message_prefix(reply):
    first, gap, rest = reply.detail.partition("\n\n")
    return " ".join((rest if gap else first).split())
