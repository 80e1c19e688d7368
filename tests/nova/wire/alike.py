# SPDX-License-Identifier: Apache-2.0
"""Compares what we understood of an object with what nova holds of it."""

from typing import Any


def alike(ours: Any, theirs: Any) -> Any:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: alike(ours.get(key), value) for key, value in theirs.items()}
    if isinstance(theirs, list) and isinstance(ours, list) and len(ours) == len(theirs):
        return [alike(one, other) for one, other in zip(ours, theirs, strict=True)]
    return theirs if not ours and not theirs else ours


def in_order(primitive: Any) -> Any:
    if isinstance(primitive, dict):
        return {
            key: sorted(value) if key == "nova_object.changes" else in_order(value)
            for key, value in primitive.items()
        }
    return [in_order(one) for one in primitive] if isinstance(primitive, list) else primitive
