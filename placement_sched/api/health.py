# SPDX-License-Identifier: Apache-2.0
"""The paths outside of the APIs: ``/``, ``/healthz`` and ``/metrics``.

``/`` lists the APIs. No path needs a token.

``/healthz`` and ``/healthz/live`` answer 200 while the process lives. ``/healthz/ready`` and
``/healthz?ready`` answer 503 while the database does not answer, is read-only or is not prepared.
If the cloud is read from nova's databases, they also report the age of that data, which does not
affect readiness.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import flask
from flask import request

from placement_sched.api.request import RETRY_AFTER, build_origin
from placement_sched.api.routing import Services
from placement_sched.api.versions import Versioning
from placement_sched.errors import Unavailable
from placement_sched.operations.nova_cloud import compute_nova_data_age, is_read_from_nova

#: The endpoint of ``/``, whose view extensions may replace.
HOME = "monitoring.list_apis"
#: The link relations and paths for monitoring, which need no token.
_MONITORING = (("health", "/healthz"), ("readiness", "/healthz/ready"), ("metrics", "/metrics"))


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """An API in the list of ``/``: id, path and microversions (or None)."""

    name: str
    id: str
    path: str
    versions: Versioning | None = None


def make_blueprint(services: Services, apis: Sequence[ApiEntry] = ()) -> flask.Blueprint:
    """Build the routes outside of the APIs, with ``/`` for ``apis``."""
    monitoring = flask.Blueprint("monitoring", __name__)

    def list_apis() -> Any:
        base = f"{build_origin(request.environ)}{request.root_path}"
        documents = []
        for api in apis:
            version = {
                "id": api.id,
                "status": "CURRENT",
                "min_version": str(api.versions.oldest) if api.versions else None,
                "max_version": str(api.versions.newest) if api.versions else None,
                "links": [{"rel": "self", "href": f"{base}{api.path}"}],
            }
            documents.append({"name": api.name, "versions": [version]})
        links = [{"rel": rel, "href": f"{base}{path}"} for rel, path in _MONITORING]
        # An extension may answer browsers with a page. Caches must not mix both.
        return {"apis": documents, "links": links}, {"Vary": "Accept"}

    def health() -> Any:
        return ready() if "ready" in request.args else live()

    def live() -> Any:
        return {"status": "live"}, {"Cache-Control": "no-store"}

    def ready() -> Any:
        try:
            services.ready()
            services.database.ping()
            _check_cache(services)
            body: dict[str, Any] = {"status": "ready"}
            if is_read_from_nova(services.settings):
                with services.database.read() as connection:
                    age = compute_nova_data_age(connection, services.clock())
                cells = list(age.down_cells)
                body["nova"] = {"read_seconds_ago": age.seconds, "cells_away": cells}
        except Unavailable as failure:
            headers = {"Cache-Control": "no-store", "Retry-After": str(RETRY_AFTER)}
            body = {"status": "not ready", "reason": failure.detail}
            return body, HTTPStatus.SERVICE_UNAVAILABLE, headers
        return body, {"Cache-Control": "no-store"}

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
        views["/"] = list_apis
    for path, view in views.items():
        monitoring.add_url_rule(
            path, view_func=view, strict_slashes=False, provide_automatic_options=False
        )
    return monitoring


def _check_cache(services: Services) -> None:
    cache = services.scheduler.caches.provider_cache
    if cache is not None and cache.is_loading:
        raise Unavailable("the provider cache is being loaded")
