"""The only place where parts are joined: settings in, one Flask application out."""

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random, SystemRandom

from oslo_middleware.cors import CORS
from oslo_middleware.http_proxy_to_wsgi import HTTPProxyToWSGI

from placement_sched.api import auth
from placement_sched.api.application import Application
from placement_sched.api.call import Services
from placement_sched.api.compute.microversions import VERSIONING as COMPUTE_VERSIONS
from placement_sched.api.compute.routes import FACE as COMPUTE
from placement_sched.api.health import Api, blueprint_of
from placement_sched.api.identity.routes import FACE as IDENTITY
from placement_sched.api.identity.routes.versions import NEWEST as IDENTITY_VERSION
from placement_sched.api.image.routes import FACE as IMAGE
from placement_sched.api.image.routes.versions import NEWEST as IMAGE_VERSION
from placement_sched.api.metrics import Metrics, counted
from placement_sched.api.placement.microversions import VERSIONING as PLACEMENT_VERSIONS
from placement_sched.api.placement.routes import FACE as PLACEMENT
from placement_sched.api.policy import Policy, check_files
from placement_sched.api.policy_rules import RULES
from placement_sched.api.request_context import WSGI, identified
from placement_sched.api.request_log import AccessLog, watching
from placement_sched.api.scheduler.routes import FACE as SCHEDULER
from placement_sched.api.serving import BodyFirst
from placement_sched.candidates.summaries import Summaries
from placement_sched.config.settings import Settings
from placement_sched.console import routes as console
from placement_sched.console.page import guarding
from placement_sched.db.engine import database_url
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.figures import CapacityFigures, CloudFigures
from placement_sched.model.request_stats import begin_stats
from placement_sched.notifications.announcer import announcer_of
from placement_sched.operations.aggregates import PolicyUpkeep
from placement_sched.operations.nova_cloud import is_novas
from placement_sched.operations.prepare import Preparation, spare_collector
from placement_sched.operations.retention import LogUpkeep
from placement_sched.scheduler.caches import Memory
from placement_sched.scheduler.capacity.report import watched
from placement_sched.scheduler.extra_specs import all_validators
from placement_sched.scheduler.live_settings import with_options_file
from placement_sched.scheduler.policies.registry import checked_plugins, policies_for
from placement_sched.scheduler.request import neutron_of
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import cloud_figures

FACES = (PLACEMENT, COMPUTE, IMAGE, IDENTITY, SCHEDULER)


def served(application: WSGI) -> WSGI:
    """Return ``application`` as a worker serves it: every request in the access log.

    The garbage collector is spared what is loaded by now, which halves what a request for 1000
    candidates costs.
    """
    spare_collector()
    return AccessLog(application)


def make_services(
    settings: Settings,
    *,
    clock: Clock = utcnow,
    random: Random | None = None,
    serving: bool = False,
    memory: Memory | None = None,
    accepted: ctypes.c_bool | None = None,
) -> Services:
    """Return what the handlers use, made once per worker.

    Where it is ``serving``, inventories are kept at the ratios of the configuration's policies,
    unless the cloud is nova's. ``memory`` is what is remembered between requests, ``accepted``
    what the workers of a server share (:class:`Preparation`).
    Raises :class:`ConfigurationError` where ``[neutron]`` or
    ``[oslo_messaging_notifications]`` is incomplete.
    """
    database = Database(settings)
    metrics = Metrics()
    scheduler = Scheduler(
        database=database,
        settings=settings,
        clock=clock,
        # It draws uuids: those of processes that are forked of one may never be the same.
        random=random or SystemRandom(),
        memory=memory or Memory.of(settings, database, metrics.mirror),
        neutron=neutron_of(settings),
        announcer=announcer_of(settings),
    )
    upkeep = _upkeep(scheduler, clock, serving=serving)
    preparation = Preparation(database, settings, clock, upkeep, accepted)
    metrics.show_cloud(partial(_figures, database, settings, preparation, clock))
    metrics.show_capacity(
        lambda: scheduler.live.settings().scheduler.capacity_flavors,
        partial(_capacities, scheduler, preparation),
    )
    return Services(
        settings=settings,
        database=database,
        policy=Policy(settings, RULES),
        metrics=metrics,
        clock=clock,
        random=random or Random(),  # noqa: S311 - draws samples, guards nothing
        summaries=Summaries(),
        scheduler=scheduler,
        ready=preparation,
        keep_up=preparation.keep_up,
    )


def _upkeep(scheduler: Scheduler, clock: Clock, *, serving: bool) -> list[Callable[[], None]]:
    """Return what is to be done now and then."""
    upkeep: list[Callable[[], None]] = [LogUpkeep(scheduler.database)]
    # Inventories are nova-compute's where the cloud is nova's, which would write its own again.
    if serving and not is_novas(scheduler.settings):
        upkeep.append(PolicyUpkeep(scheduler.database, scheduler.live.settings, clock))
    return upkeep


def application_of(services: Services) -> Application:
    """Return the application with all faces, on these services."""
    apis = (
        Api("placement", "v1.0", "/placement/", PLACEMENT_VERSIONS),
        Api("compute", "v2.1", "/compute/v2.1/", COMPUTE_VERSIONS),
        Api("image", f"v{IMAGE_VERSION}", "/image/v2/"),
        Api("identity", f"v{IDENTITY_VERSION}", "/identity/v3/"),
        Api("scheduler", "v1", "/scheduler/v1"),
    )
    faces = {f"/{face.name}": face for face in FACES}
    home = console.home_of(services)
    application = Application(services, faces, blueprint_of(services, apis, home))
    application.register_blueprint(console.blueprint_of(services), url_prefix="/console")
    watched = _watched(application)
    watched.wsgi_app = guarding(watched.wsgi_app)  # type: ignore[assignment,method-assign] # so
    return watched


def check_parts(settings: Settings, clock: Clock = utcnow) -> None:
    """Raise :class:`ConfigurationError` where a part of the application cannot be as configured.

    A server calls this before it starts workers, whose errors the operator would not see.
    """
    _check_parts(settings, clock)
    check_files(settings, RULES)


def _check_parts(settings: Settings, clock: Clock) -> None:
    """Check all but the policy files, which are read where the services are made."""
    database_url(settings)
    checked_plugins(settings, clock)
    all_validators()
    neutron_of(settings)
    policies_for(with_options_file(settings).settings, clock).check()
    announcer_of(settings)
    if settings.api.auth_strategy == "keystone":
        auth.check_keystone(settings.conf)


def _figures(
    database: Database, settings: Settings, preparation: Preparation, clock: Clock
) -> CloudFigures:
    """Return the figures of the whole cloud; its statements are those of no request."""
    options = settings.DEFAULT
    try:
        preparation()
        with database.read() as connection:
            return cloud_figures.read(
                connection, clock(), options.service_down_time, options.default_availability_zone
            )
    finally:
        begin_stats()


def _capacities(
    scheduler: Scheduler, preparation: Preparation, names: Sequence[str]
) -> CapacityFigures:
    """Return the capacity for flavors; its statements are those of no request."""
    try:
        preparation()
        return watched(scheduler, names, time.time())
    finally:
        begin_stats()


def create_app(
    settings: Settings, *, clock: Clock = utcnow, random: Random | None = None
) -> Application:
    """Return the application with all faces mounted.

    Raises :class:`ConfigurationError` where an enabled plugin is not there, or an installed
    package's validators of extra specs, or where ``[pci] alias``, a policy, ``[neutron]`` or the
    notifications cannot be used as configured: the first request would find that too late.
    """
    _check_parts(settings, clock)
    services = make_services(settings, clock=clock, random=random, serving=True)
    return application_of(services)


def placement_app(services: Services) -> Application:
    """Return the Placement face alone, at the root."""
    return _watched(Application(services, {"": PLACEMENT}, blueprint_of(services)))


def _watched(application: Application) -> Application:
    """Put before Flask what a WSGI server's request passes first, the outermost layer last."""
    services = application.services
    inner: WSGI = application.wsgi_app
    if services.settings.api.auth_strategy == "keystone":
        inner = auth.guarded_by_keystone(inner, services.settings.conf, application.names)
    inner = _edged(inner, services.settings)
    inner = watching(inner, services.settings.api.slow_request_seconds)
    inner = counted(inner, services.metrics)
    inner = BodyFirst(inner, services.settings.api.max_request_body_size)
    application.wsgi_app = identified(inner)  # type: ignore[assignment,method-assign] # as Flask does
    return application


def _edged(application: WSGI, settings: Settings) -> WSGI:
    """Return ``application`` with what is configured of oslo.middleware in front.

    ``[cors] allowed_origin`` answers preflight requests and names the origins that may read
    answers; ``[oslo_middleware] enable_proxy_headers_parsing`` believes ``Forwarded`` and
    ``X-Forwarded-*``. Neither costs anything where it is not configured.
    """
    if settings.cors.allowed_origin:
        application = CORS(application, settings.conf)
    if settings.oslo_middleware.enable_proxy_headers_parsing:
        application = HTTPProxyToWSGI(application, settings.conf)
    return application
