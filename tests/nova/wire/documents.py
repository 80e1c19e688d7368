# SPDX-License-Identifier: Apache-2.0
"""Parsed request specs and images as JSON with nova's field names."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.model.image import Image, ImageProperties
from placement_sched.model.request_spec import parse_request_spec
from placement_sched.nova.request_spec import build_document


def convert_spec_to_document(primitive: Any) -> dict[str, Any]:
    spec = parse_request_spec(build_document(primitive))
    special = {
        "flavor": spec.flavor.as_document(),
        "retry": spec.to_legacy_filter_properties_dict().get("retry"),
    }
    if spec.image == Image():
        # A request without an image is parsed as an image without properties.
        special["image"] = None
    return {**convert_to_document(spec), **special}


def convert_to_document(value: Any) -> Any:
    if isinstance(value, ImageProperties):
        value = value.to_dict()
    if isinstance(value, InstancePCIRequests):
        value = value.requests
    if is_dataclass(value):
        return {each.name: convert_to_document(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: convert_to_document(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [convert_to_document(each) for each in value]
    return value
