# SPDX-License-Identifier: Apache-2.0
"""Compares what two placement services answer about all providers and consumers.

python3 compare.py http://old:8778 https://placement.example.com/placement

Prints what differs, and exits with 1 if anything does. The token is that of ``$OS_TOKEN``
(``openstack token issue -f value -c id``; ``admin`` where ``noauth2`` is set), a CA's certificate
that of ``$OS_CACERT``. Only Python is needed. What is written while it reads may differ: run it
again.
"""

import json
import os
import ssl
import sys
from collections.abc import Iterator
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

#: What each provider is asked for.
OF_PROVIDERS = ("inventories", "traits", "aggregates", "allocations")


class Placement:
    """One of the services, asked at a microversion that both have."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.version = "1.0"
        self._tls = ssl.create_default_context(cafile=os.environ.get("OS_CACERT"))

    def newest(self) -> tuple[int, ...]:
        """Return its newest microversion."""
        (version,) = self.ask("/")["versions"]
        return tuple(map(int, version["max_version"].split(".")))

    def ask(self, path: str) -> dict:
        """Return the answer to ``GET path``."""
        headers = {
            "X-Auth-Token": os.environ.get("OS_TOKEN", "admin"),
            "OpenStack-API-Version": f"placement {self.version}",
        }
        request = Request(self.url + path, headers=headers)  # noqa: S310 - the operator's own address
        with urlopen(request, timeout=120, context=self._tls) as answer:  # noqa: S310 - as above
            return json.load(answer)

    def all_of_it(self) -> Iterator[tuple[str, object]]:
        """Yield what it knows, with a name for each part."""
        providers = self.ask("/resource_providers")["resource_providers"]
        consumers: set[str] = set()
        for provider in providers:
            path = f"/resource_providers/{provider['uuid']}"
            provider.pop("links")
            yield path, provider
            for noun in OF_PROVIDERS:
                answer = self.ask(f"{path}/{noun}")
                yield f"{path}/{noun}", plain(answer)
            consumers |= set(answer["allocations"])
        for consumer in consumers:
            yield f"/allocations/{consumer}", self.ask(f"/allocations/{consumer}")
        yield "custom traits", plain(self.ask("/traits?name=startswith:CUSTOM_"))
        classes = self.ask("/resource_classes")["resource_classes"]
        yield (
            "custom classes",
            sorted(c["name"] for c in classes if c["name"].startswith("CUSTOM_")),
        )


def plain(answer: dict) -> dict:
    """Return the answer with lists, whose order means nothing, in order."""
    return {k: sorted(v) if isinstance(v, list) else v for k, v in answer.items()}


def main(old: str, new: str) -> int:
    """Print how the two differ; return the exit status."""
    sides = Placement(old), Placement(new)
    version = min(side.newest() for side in sides)
    for side in sides:
        side.version = ".".join(map(str, version))
    one, other = (dict(side.all_of_it()) for side in sides)
    differing = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    for name in sorted(differing):
        sys.stdout.write(f"{name}\n  {old}: {one.get(name)}\n  {new}: {other.get(name)}\n")
    consumers = sum(name.startswith("/allocations/") for name in one)
    providers = sum(name.count("/") == 2 for name in one) - consumers
    said = f"{len(differing)} parts differ" if differing else "both answer the same"
    sys.stdout.write(f"{providers} resource providers, {consumers} consumers: {said}\n")
    return bool(differing)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except HTTPError as failure:
        sys.exit(f"{failure.url}: {failure} {failure.read().decode(errors='replace')[:500]}")
    except URLError as failure:
        sys.exit(f"no answer: {failure.reason}")
