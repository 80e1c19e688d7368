# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference are what the application answers today."""

import json

import pytest

from tests.docs.samples import FOLDER, samples, settled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played():
    return samples()


def test_every_sample_is_of_the_story(played):
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json")} == set(played)


def test_samples_are_what_is_answered_today(played):
    kept = {name: json.loads((FOLDER / name).read_text()) for name in played}
    stale = [name for name, document in played.items() if settled(document) != settled(kept[name])]
    assert not stale, "write them anew: python -m tests.docs.samples"
