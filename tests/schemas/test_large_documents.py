# SPDX-License-Identifier: Apache-2.0
"""Validation of large documents reports the first fault without comparing all faults."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.schemas.faults import MAX_COMPARED, MAX_FAULTS, Schema

OBJECT = {"type": "object", "additionalProperties": {"type": "string"}}


def test_first_error_of_a_large_document_is_reported():
    validator = Schema(OBJECT)
    large = {f"key{number}": number for number in range(MAX_COMPARED)}
    assert len(list(validator.find_faults(large))) == 1
    small = {f"key{number}": number for number in range(9)}
    assert len(list(validator.find_faults(small))) == 9
    with pytest.raises(Invalid, match=r"(at \$\.key\d+\)).*'type' in schema\['additionalProp"):
        Schema(OBJECT).check(large, "JSON does not validate")


def test_compared_errors_of_a_document_are_limited():
    schema = {"type": "array", "items": {"type": "string"}}
    document = [1] * (MAX_COMPARED - 1)
    assert len(list(Schema(schema).find_faults(document))) == MAX_FAULTS
