# SPDX-License-Identifier: Apache-2.0
"""Creation of the Flask application and of the services that it uses."""

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random, SystemRandom
from typing import TypeVar

from oslo_middleware.cors import CORS
from oslo_middleware.http_proxy_to_wsgi import HTTPProxyToWSGI

from placement_sched.api import auth
from placement_sched.api.application import Application
from placement_sched.api.compute.microversions import VERSIONING as COMPUTE_VERSIONS
from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.health import ApiEntry, make_blueprint
from placement_sched.api.identity import API as IDENTITY
from placement_sched.api.identity import NEWEST as IDENTITY_VERSION
from placement_sched.api.image import API as IMAGE
from placement_sched.api.image import NEWEST as IMAGE_VERSION
from placement_sched.api.metrics import DIRECTORY, Metrics
from placement_sched.api.middleware import WSGI, log_requests, observe_requests, set_request_context
from placement_sched.api.placement.microversions import VERSIONING as PLACEMENT_VERSIONS
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.policy import AdministratorPolicy, Policy, check_files
from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import Services
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.api.scheduler.routes import build_api
from placement_sched.api.serving import BodyReader
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock, read_timestamp, utcnow
from placement_sched.model.extension import load_hooks
from placement_sched.model.figures import CloudFigures
from placement_sched.model.request_stats import begin_stats
from placement_sched.notifications import create_notifier
from placement_sched.operations import config_check
from placement_sched.operations.aggregates import RatioUpdater
from placement_sched.operations.gauges import CloudGauges
from placement_sched.operations.nova_cloud import is_read_from_nova
from placement_sched.operations.periodic import OldRowDeletion, WaitingRequests
from placement_sched.operations.prepare import Preparation, freeze_loaded_objects
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.host_manager import CellStates
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.request import create_neutron_client
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import figures

T = TypeVar("T")

APIS = (PLACEMENT, COMPUTE, IMAGE, IDENTITY, SCHEDULER)


def wrap_for_worker(application: WSGI) -> WSGI:
    """Wrap ``application`` for a worker, with an access log."""
    freeze_loaded_objects()
    return log_requests(application)


@dataclass(frozen=True, slots=True)
class ServerState:
    """The settings, and a flag (the database is prepared), of all workers."""

    live: LiveSettings
    accepted: ctypes.c_bool


def make_services(
    settings: Settings,
    *,
    clock: Clock = utcnow,
    random: Random | None = None,
    serving: bool = False,
    caches: ProcessCaches | None = None,
    server: ServerState | None = None,
) -> Services:
    """Create the services that the handlers use, once per worker.

    If ``serving``, more periodic tasks run: notices of waiting requests that fit now, the tasks of
    extensions and, unless nova manages the cloud, updates of inventories to the allocation ratios
    of the scheduling policies.
    ``caches`` are the caches between requests. ``server`` is the state that all workers share.
    Raises :class:`ConfigurationError` for incomplete ``[neutron]`` or notification options.
    """
    database = Database(settings)
    if database.shows_file:
        # Nothing is written, and every host is judged at the time of the file.
        clock, serving = partial(read_timestamp, settings.placement_database.shown_at), False
    metrics = Metrics()
    scheduler = Scheduler(
        database=database,
        settings=settings,
        clock=clock,
        # It generates uuids, which must differ between forked processes.
        random=random or SystemRandom(),
        caches=caches
        or ProcessCaches.from_settings(settings, database, metrics.update_provider_cache),
        neutron=create_neutron_client(settings),
        notifier=create_notifier(settings),
        parent=server.live if server else None,
    )
    disabled = settings.DEFAULT.disabled_extensions
    periodic_tasks: list[Callable[[], None]] = []
    if not database.shows_file:
        periodic_tasks.append(OldRowDeletion(database, settings, clock))
    if serving:
        periodic_tasks.append(WaitingRequests(scheduler))
        # In a nova cloud nova-compute manages the inventories and would overwrite changes.
        if not is_read_from_nova(settings):
            periodic_tasks.append(RatioUpdater(database, scheduler.live.get_settings, clock))
        for build_tasks in load_hooks("periodic_tasks", disabled):
            periodic_tasks += build_tasks(scheduler)
    accepted = server.accepted if server else None
    preparation = Preparation(database, settings, clock, periodic_tasks, accepted)
    outside = partial(_wrap_outside_requests, preparation)

    def read_figures() -> CloudFigures:
        options = settings.DEFAULT
        zone = options.default_availability_zone
        with database.read() as connection:
            age = CellStates(connection, settings, clock).reading_age
            down_time = options.service_down_time
            return figures.read_cloud_figures(connection, clock(), down_time, zone, age)

    metrics.show(CloudGauges(outside(read_figures), os.environ.get(DIRECTORY)))
    for build_gauges in load_hooks("gauges", disabled):
        for collector in build_gauges(scheduler, outside):
            metrics.show(collector)
    return Services(
        settings=settings,
        database=database,
        policy=Policy(settings, RULES),
        metrics=metrics,
        clock=clock,
        random=random or Random(),  # noqa: S311 - draws samples, no secrets
        scheduler=scheduler,
        ready=preparation,
        run_periodic_tasks=preparation.run_refresh,
    )


def make_application(services: Services) -> Application:
    """Create the application with all APIs and extensions on ``services``."""
    apis = (
        ApiEntry("placement", "v1.0", "/placement/", PLACEMENT_VERSIONS),
        ApiEntry("compute", "v2.1", "/compute/v2.1/", COMPUTE_VERSIONS),
        ApiEntry("image", f"v{IMAGE_VERSION}", "/image/v2/"),
        ApiEntry("identity", f"v{IDENTITY_VERSION}", "/identity/v3/"),
        ApiEntry("scheduler", "v1", "/scheduler/v1"),
    )
    disabled = services.settings.DEFAULT.disabled_extensions
    apis_by_prefix = {
        f"/{api.name}": api for api in (PLACEMENT, COMPUTE, IMAGE, IDENTITY, build_api(disabled))
    }
    application = Application(services, apis_by_prefix, make_blueprint(services, apis))
    _wrap_application(application)
    for install in load_hooks("install", disabled):
        install(application, services)
    return application


def make_local_application(settings: Settings) -> Application:
    """Create the application of a command without a server.

    Its caller is an administrator without restrictions. Errors are raised, not answered.
    """
    # For a single request, filling the provider cache would take longer than the search.
    services = make_services(settings, caches=ProcessCaches())
    services = replace(
        services,
        settings=settings.with_overrides({"api.auth_strategy": "noauth2"}),
        policy=AdministratorPolicy(settings, RULES),
    )
    apis = {"/compute": COMPUTE, "/scheduler": build_api(settings.DEFAULT.disabled_extensions)}
    application = Application(services, apis, make_blueprint(services))
    application.config["PROPAGATE_EXCEPTIONS"] = True
    return application


def check_parts(settings: Settings, clock: Clock = utcnow) -> Sequence[str]:
    """Check the application before any worker starts, and return warnings.

    Raises :class:`ConfigurationError`.
    """
    _check_parts(settings, clock)
    check_files(settings, RULES)
    return config_check.list_extension_warnings(settings)


def _check_parts(settings: Settings, clock: Clock) -> None:
    """Check everything except policy files, which ``make_services`` reads."""
    config_check.check_parts(settings, clock)
    if settings.api.auth_strategy == "keystone":
        auth.check_keystone(settings.conf)


def _wrap_outside_requests(preparation: Preparation, read: Callable[..., T]) -> Callable[..., T]:
    """Prepare the database before each call, and count no SQL statements."""

    def run(*arguments: object) -> T:
        try:
            preparation()
            return read(*arguments)
        finally:
            begin_stats()

    return run


def create_app(
    settings: Settings, *, clock: Clock = utcnow, random: Random | None = None
) -> Application:
    """Create the application, or raise :class:`ConfigurationError`."""
    _check_parts(settings, clock)
    services = make_services(settings, clock=clock, random=random, serving=True)
    return make_application(services)


def create_placement_app(services: Services) -> Application:
    """Create an application with only the Placement API, at the root."""
    return _wrap_application(Application(services, {"": PLACEMENT}, make_blueprint(services)))


def _wrap_application(application: Application) -> Application:
    services, settings = application.services, application.services.settings
    inner: WSGI = application.wsgi_app
    if settings.api.auth_strategy == "keystone":
        inner = auth.require_keystone(inner, settings.conf, application.names)
    if settings.cors.allowed_origin:
        inner = CORS(inner, settings.conf)
    if settings.oslo_middleware.enable_proxy_headers_parsing:  # trust X-Forwarded-* and Forwarded
        inner = HTTPProxyToWSGI(inner, settings.conf)
    inner = observe_requests(inner, services.metrics, settings.api.slow_request_seconds)
    inner = BodyReader(inner, settings.api.max_request_body_size)
    application.wsgi_app = set_request_context(inner)  # type: ignore[assignment,method-assign] # as Flask does
    return application
