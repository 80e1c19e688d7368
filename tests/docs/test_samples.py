# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference equal the responses of the application."""

import json

import pytest

from tests.docs.samples import FOLDER, STORY, build_samples, replace_changing_values

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def new_samples():
    return build_samples()


def test_every_sample_belongs_to_a_request(new_samples):
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json")}
    assert {name for name in files if name.endswith("-response.json")} == set(new_samples)
    requests = {name for name in files if name.endswith("-request.json")}
    assert requests <= {f"{step.name}-request.json" for step in STORY if step.body is None}
    assert files == requests | set(new_samples)


def test_samples_equal_responses_of_the_api(new_samples):
    kept = {name: json.loads((FOLDER / name).read_text()) for name in new_samples}
    stale = [
        name
        for name, document in new_samples.items()
        if replace_changing_values(document) != replace_changing_values(kept[name])
    ]
    assert not stale, "write them anew: python -m tests.docs.samples"
