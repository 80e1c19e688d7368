# SPDX-License-Identifier: Apache-2.0
"""Requests to the scheduler."""

from tests.support.scheduling import make_spec

SELECT_PATH = "/scheduler/v1/select_destinations"
EXPLAIN_PATH = "/scheduler/v1/explain"


def post_request_spec(app, *instances, path=EXPLAIN_PATH, **changes):
    return app.post_json(path, {"request_spec": make_spec(*instances, **changes)}).json
