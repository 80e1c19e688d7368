# SPDX-License-Identifier: Apache-2.0
"""The samples of the guide's page on notifications equal sent messages, and all are shown."""

import json
import re

import pytest

from tests.docs.notification_samples import FOLDER, build_samples

pytestmark = pytest.mark.slow


def test_samples_equal_sent_notifications():
    kept = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    assert kept == build_samples(), "write them anew: python -m tests.docs.notification_samples"


def test_every_sample_is_in_the_guide():
    page = (FOLDER.parent / "metrics.rst").read_text()
    shown = re.findall(r"^\.\. literalinclude:: notification_samples/(\S+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(build_samples())
