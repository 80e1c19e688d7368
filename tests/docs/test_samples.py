# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference are what the application answers today."""

import json

import pytest

from tests.docs.samples import FOLDER, build_samples, remove_changing_parts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played_samples():
    return build_samples()


def test_every_sample_belongs_to_the_story(played_samples):
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json")} == set(played_samples)


def test_samples_equal_answers_of_the_api(played_samples):
    kept = {name: json.loads((FOLDER / name).read_text()) for name in played_samples}
    stale = [
        name
        for name, document in played_samples.items()
        if remove_changing_parts(document) != remove_changing_parts(kept[name])
    ]
    assert not stale, "write them anew: python -m tests.docs.samples"
