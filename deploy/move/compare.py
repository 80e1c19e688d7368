# SPDX-License-Identifier: Apache-2.0
"""Comparison of all providers and consumers of two placement services.

python3 compare.py http://old:8778 https://placement.example.com/placement

Prints the differences, and exits with 1 if there are any. ``$OS_TOKEN`` has the token
(``openstack token issue -f value -c id``, or ``admin`` with ``noauth2``), ``$OS_CACERT`` the
certificate of a CA. Only Python is needed. Changes during the comparison may appear as
differences: run it again.
"""

import json
import os
import ssl
import sys
from collections.abc import Iterator
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

#: Parts of each provider.
PROVIDER_PARTS = ("inventories", "traits", "aggregates", "allocations")


class Placement:
    """A placement service, called with a microversion of both services."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.version = "1.0"
        self._tls = ssl.create_default_context(cafile=os.environ.get("OS_CACERT"))

    def newest(self) -> tuple[int, ...]:
        """Return the newest microversion."""
        (version,) = self.get("/")["versions"]
        return tuple(map(int, version["max_version"].split(".")))

    def get(self, path: str) -> dict:
        """Return the response to ``GET path``."""
        headers = {
            "X-Auth-Token": os.environ.get("OS_TOKEN", "admin"),
            "OpenStack-API-Version": f"placement {self.version}",
        }
        request = Request(self.url + path, headers=headers)  # noqa: S310 - the operator's own address
        with urlopen(request, timeout=120, context=self._tls) as response:  # noqa: S310 - as above
            return json.load(response)

    def read_parts(self) -> Iterator[tuple[str, object]]:
        """Yield each provider, consumer, trait and class, with a name."""
        providers = self.get("/resource_providers")["resource_providers"]
        consumers: set[str] = set()
        for provider in providers:
            path = f"/resource_providers/{provider['uuid']}"
            provider.pop("links")
            yield path, provider
            for noun in PROVIDER_PARTS:
                response = self.get(f"{path}/{noun}")
                yield f"{path}/{noun}", plain(response)
            consumers |= set(response["allocations"])
        for consumer in consumers:
            yield f"/allocations/{consumer}", self.get(f"/allocations/{consumer}")
        yield "custom traits", plain(self.get("/traits?name=startswith:CUSTOM_"))
        classes = self.get("/resource_classes")["resource_classes"]
        yield (
            "custom classes",
            sorted(c["name"] for c in classes if c["name"].startswith("CUSTOM_")),
        )


def plain(response: dict) -> dict:
    """Return the response with sorted lists, whose order has no meaning."""
    return {k: sorted(v) if isinstance(v, list) else v for k, v in response.items()}


def main(old: str, new: str) -> int:
    """Print the differences and return the exit status."""
    sides = Placement(old), Placement(new)
    version = min(side.newest() for side in sides)
    for side in sides:
        side.version = ".".join(map(str, version))
    old_parts, new_parts = (dict(side.read_parts()) for side in sides)
    differing = [
        name for name in {**old_parts, **new_parts} if old_parts.get(name) != new_parts.get(name)
    ]
    for name in sorted(differing):
        sys.stdout.write(
            f"{name}\n  {old}: {old_parts.get(name)}\n  {new}: {new_parts.get(name)}\n"
        )
    consumers = sum(name.startswith("/allocations/") for name in old_parts)
    providers = sum(name.count("/") == 2 for name in old_parts) - consumers
    result = f"{len(differing)} parts differ" if differing else "both answer the same"
    sys.stdout.write(f"{providers} resource providers, {consumers} consumers: {result}\n")
    return bool(differing)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except HTTPError as failure:
        sys.exit(f"{failure.url}: {failure} {failure.read().decode(errors='replace')[:500]}")
    except URLError as failure:
        sys.exit(f"no response: {failure.reason}")
