# SPDX-License-Identifier: Apache-2.0
"""No notifications in memory before and after each test."""

import pytest


@pytest.fixture(autouse=True)
def clear_sent_notifications():
    # The library takes long to import, and no fast test needs it.
    from tests.notifications.memory import clear_notifications

    clear_notifications()
    yield
    clear_notifications()
