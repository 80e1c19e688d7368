# SPDX-License-Identifier: Apache-2.0
"""A write request of the tests of faults."""

from uuid import uuid4

from tests.support.versions import LATEST_HEADERS


def create_provider(app, **options):
    """Create a resource provider, and return the response."""
    uuid = str(uuid4())
    body = {"uuid": uuid, "name": uuid}
    return app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS, **options)
