# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference equal the responses of the application."""

import json

import pytest

from tests.docs.samples import (
    SAMPLES,
    SAMPLES_FOLDER,
    build_response_samples,
    replace_changing_values,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def new_response_samples():
    return build_response_samples()


def test_every_api_sample_belongs_to_a_request(new_response_samples):
    files = {str(path.relative_to(SAMPLES_FOLDER)) for path in SAMPLES_FOLDER.rglob("*.json")}
    assert {name for name in files if name.endswith("-response.json")} == set(new_response_samples)
    requests = {name for name in files if name.endswith("-request.json")}
    assert requests <= {f"{sample.name}-request.json" for sample in SAMPLES if sample.body is None}
    assert files == requests | set(new_response_samples)


def test_api_samples_equal_responses_of_the_api(new_response_samples):
    samples = {
        name: json.loads((SAMPLES_FOLDER / name).read_text()) for name in new_response_samples
    }
    stale = [
        name
        for name, document in new_response_samples.items()
        if replace_changing_values(document) != replace_changing_values(samples[name])
    ]
    assert not stale, "write them anew: python -m tests.docs.samples"
