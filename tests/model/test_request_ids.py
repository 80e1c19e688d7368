# SPDX-License-Identifier: Apache-2.0
"""Request ids that a caller sends, and the form that they must have."""

import pytest

from placement_sched.model.context import ids_of

ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"


@pytest.mark.parametrize(
    "header", [None, "nonsense", ID[4:], ID.upper(), f"{ID}0", f"{ID}\u00e9", f"x{ID}", "req-"]
)
def test_global_request_id_of_another_form_is_ignored(header):
    ids = ids_of(header)
    assert ids.global_request_id is None
    assert ids.request_id.startswith("req-")
    assert ids.request_id != header
    assert ids_of(ID).global_request_id == ID
