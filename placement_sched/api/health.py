"""What is served beside the APIs: ``/``, which lists them, ``/healthz`` and ``/metrics``.

``/`` shows the console instead to a browser that may see it.

None of it needs a token. ``/healthz`` and ``/healthz/live`` answer 200 while the process lives;
``/healthz/ready`` and ``/healthz?ready`` answer 503 while the database does not answer, takes no
writes or is not prepared. Where the cloud is nova's, they also report how old what was read of nova
is, which does not make a server unready.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import flask
from flask import request

from placement_sched.api.call import Services
from placement_sched.api.request import origin_of
from placement_sched.api.response import RETRY_AFTER
from placement_sched.api.versions import Versioning
from placement_sched.errors import Unavailable
from placement_sched.operations.nova_cloud import is_novas, reading_of

#: What is served beside the APIs: for monitoring, without a token.
_BESIDE = (("health", "/healthz"), ("readiness", "/healthz/ready"), ("metrics", "/metrics"))


@dataclass(frozen=True, slots=True)
class Api:
    """One API: the first part of its paths, and the major version that is served below it.

    ``id`` and ``path`` are those of the major version (``v2.1`` at ``/compute/v2.1/``).
    ``versions`` are its microversions, where it has any.
    """

    name: str
    id: str
    path: str
    versions: Versioning | None = None


def blueprint_of(
    services: Services, apis: Sequence[Api] = (), home: Callable[[], Any] = lambda: None
) -> flask.Blueprint:
    """Return the routes beside the APIs; ``/`` only where there are several of these.

    ``home`` returns what ``/`` shows to a browser, or None where the APIs are to be listed.
    """
    beside = flask.Blueprint("beside", __name__)

    def index() -> Any:
        return home() or listing()

    def listing() -> Any:
        base = f"{origin_of(request.environ)}{request.root_path}"
        listed = [{"name": api.name, "versions": [_version(api, base)]} for api in apis]
        links = [{"rel": rel, "href": f"{base}{path}"} for rel, path in _BESIDE]
        # A cache may not take the list for the page, nor the page for the list.
        return {"apis": listed, "links": links}, {"Vary": "Accept"}

    def health() -> Any:
        return ready() if "ready" in request.args else live()

    def live() -> Any:
        return {"status": "live"}, {"Cache-Control": "no-store"}

    def ready() -> Any:
        try:
            services.ready()
            services.database.ping()
            _check_cache(services)
            reading = _reading(services)
        except Unavailable as failure:
            headers = {"Cache-Control": "no-store", "Retry-After": str(RETRY_AFTER)}
            body = {"status": "not ready", "reason": failure.detail}
            return body, HTTPStatus.SERVICE_UNAVAILABLE, headers
        return {"status": "ready", **reading}, {"Cache-Control": "no-store"}

    def metrics() -> flask.Response:
        content_type, content = services.metrics.scrape(request.headers.get("Accept", ""))
        return flask.Response(content, content_type=content_type)

    views = {
        "/healthz": health,
        "/healthz/live": live,
        "/healthz/ready": ready,
        "/metrics": metrics,
    }
    if apis:
        views["/"] = index
    for path, view in views.items():
        beside.add_url_rule(
            path, view_func=view, strict_slashes=False, provide_automatic_options=False
        )
    return beside


def _check_cache(services: Services) -> None:
    """Raise :class:`Unavailable` while all providers are being read for the first time."""
    cache = services.scheduler.memory.provider_cache
    if cache is not None and cache.is_loading:
        raise Unavailable("the provider cache is being loaded")


def _reading(services: Services) -> dict[str, Any]:
    """Return how old what was read of nova is, where the cloud is nova's."""
    if not is_novas(services.settings):
        return {}
    with services.database.read() as connection:
        reading = reading_of(connection, services.clock())
    return {"nova": {"read_seconds_ago": reading.oldest, "cells_away": list(reading.away)}}


def _version(api: Api, base: str) -> dict[str, Any]:
    return {
        "id": api.id,
        "status": "CURRENT",
        "min_version": str(api.versions.oldest) if api.versions else None,
        "max_version": str(api.versions.newest) if api.versions else None,
        "links": [{"rel": "self", "href": f"{base}{api.path}"}],
    }
