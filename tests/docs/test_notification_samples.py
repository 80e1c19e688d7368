# SPDX-License-Identifier: Apache-2.0
"""The samples of the guide's page on notifications equal sent messages, and all are shown."""

import json
import re

import pytest

from tests.docs.notification_samples import SAMPLES_FOLDER, build_notification_samples

pytestmark = pytest.mark.slow


def test_notification_samples_equal_sent_notifications():
    samples = {path.name: json.loads(path.read_text()) for path in SAMPLES_FOLDER.glob("*.json")}
    assert samples == build_notification_samples(), (
        "write them anew: python -m tests.docs.notification_samples"
    )


def test_every_notification_sample_is_in_the_guide():
    page = (SAMPLES_FOLDER.parent / "metrics.rst").read_text()
    shown = re.findall(r"^\.\. literalinclude:: notification_samples/(\S+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(build_notification_samples())
