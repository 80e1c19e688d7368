# SPDX-License-Identifier: Apache-2.0
"""Bodies of allocation writes at each microversion."""

from collections.abc import Mapping
from typing import Any


def build_version_headers(version: str) -> dict[str, str]:
    return {"OpenStack-API-Version": f"placement {version}"}


def build_body(
    version: str,
    amounts: Mapping[str, Mapping[str, int]],
    *,
    generation: int | None = None,
    kind: str = "INSTANCE",
    owner: tuple[str, str] = ("project", "user"),
) -> dict[str, Any]:
    """Return the body of a claim of ``amounts``, by provider uuid and resource class."""
    minor = int(version.partition(".")[2])
    body: dict[str, Any]
    if minor < 12:
        body = {
            "allocations": [
                {"resource_provider": {"uuid": provider}, "resources": dict(resources)}
                for provider, resources in amounts.items()
            ]
        }
    else:
        body = {
            "allocations": {
                provider: {"resources": dict(resources)} for provider, resources in amounts.items()
            }
        }
    if minor >= 8:
        body["project_id"], body["user_id"] = owner
    if minor >= 28:
        body["consumer_generation"] = generation
    if minor >= 38:
        body["consumer_type"] = kind
    return body
