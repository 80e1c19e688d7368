# SPDX-License-Identifier: Apache-2.0
"""Comparison of parsed objects with nova's objects."""

from typing import Any


def unify_empty_values(ours: Any, theirs: Any) -> Any:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: unify_empty_values(ours.get(key), value) for key, value in theirs.items()}
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [unify_empty_values(*pair) for pair in zip(ours, theirs, strict=True)]
    return theirs if not ours and not theirs else ours


def sort_sets(primitive: Any) -> Any:
    if isinstance(primitive, dict):
        return {
            key: sorted(value) if key == "nova_object.changes" else sort_sets(value)
            for key, value in primitive.items()
        }
    if isinstance(primitive, list):
        return [sort_sets(each) for each in primitive]
    return primitive
