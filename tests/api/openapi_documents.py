# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of the Placement API."""

from functools import cache

from placement_sched.api import openapi
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import API, describe_openapi
from placement_sched.api.versions import Version

MICROVERSIONS = [Version(1, minor) for minor in range(VERSIONING.newest.minor + 1)]


@cache
def build_openapi_document(version: Version) -> dict:
    return openapi.build_document(describe_openapi(API.routes), version, "/placement")


def index_operations_by_path(document: dict) -> dict[tuple[str, str], dict]:
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
