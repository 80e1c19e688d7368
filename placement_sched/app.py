"""The only place where parts are joined: settings in, one WSGI application out."""

import gc
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from placement_sched.api import keystone
from placement_sched.api.access_log import AccessLog
from placement_sched.api.body_reading import BodyFirst
from placement_sched.api.compute.dialect import ComputeDialect
from placement_sched.api.compute.face import ROUTES as COMPUTE_ROUTES
from placement_sched.api.compute.microversions import VERSIONING as COMPUTE_VERSIONS
from placement_sched.api.edge import edged
from placement_sched.api.face import Face
from placement_sched.api.health import Health
from placement_sched.api.identity.dialect import NEWEST as IDENTITY_VERSION
from placement_sched.api.identity.dialect import IdentityDialect
from placement_sched.api.identity.face import ROUTES as IDENTITY_ROUTES
from placement_sched.api.image.dialect import NEWEST as IMAGE_VERSION
from placement_sched.api.image.dialect import ImageDialect
from placement_sched.api.image.face import ROUTES as IMAGE_ROUTES
from placement_sched.api.metrics import Metrics, Scrape, counted
from placement_sched.api.microversion import Version, Versioning
from placement_sched.api.mounts import mounted
from placement_sched.api.placement.dialect import PlacementDialect
from placement_sched.api.placement.face import ROUTES as PLACEMENT_ROUTES
from placement_sched.api.placement.microversions import VERSIONING as PLACEMENT_VERSIONS
from placement_sched.api.policies import Policy, check_files
from placement_sched.api.request_context import identified
from placement_sched.api.root import Api, Root
from placement_sched.api.rules import RULES
from placement_sched.api.scheduler.dialect import SchedulerDialect
from placement_sched.api.scheduler.face import ROUTES as SCHEDULER_ROUTES
from placement_sched.api.services import Services
from placement_sched.api.wsgi_types import WSGI, StartResponse
from placement_sched.candidates.summaries import Summaries
from placement_sched.config import logs
from placement_sched.config.process import CONF
from placement_sched.config.settings import Settings
from placement_sched.db.engine import database_url
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock, utcnow
from placement_sched.notifications.announcer import announcer_of
from placement_sched.operations.policy_upkeep import PolicyUpkeep
from placement_sched.operations.prepare import Preparation
from placement_sched.scheduler import options_file
from placement_sched.scheduler.completion import check_aliases
from placement_sched.scheduler.extra_specs import all_validators
from placement_sched.scheduler.hosts import Memory
from placement_sched.scheduler.loading import plugins_for, read_settings
from placement_sched.scheduler.networks import neutron_of
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.scheduler.service import Scheduler

#: So many objects more than were freed start a collection of the young ones (Python: 700).
_YOUNG = 10_000


def start(files: Sequence[str]) -> Settings:
    """Read ``files`` and the environment into the process's ``CONF`` and start the log.

    Raises :class:`ConfigurationError` with the option or class that is wrong.
    """
    settings = read_settings(files)
    logs.setup(CONF)
    return settings


def served(application: WSGI) -> WSGI:
    """Return ``application`` as a worker serves it: every request in the access log.

    What is loaded by now stays for good, so the garbage collector need not walk it ever again;
    and an answer of thousands of rows is not taken for garbage every 700 objects. Together they
    halve what a request for 1000 candidates costs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    return AccessLog(application)


def make_services(
    settings: Settings,
    *,
    clock: Clock = utcnow,
    random: Random | None = None,
    serving: bool = False,
) -> Services:
    """Return what the handlers use, made once per worker.

    Where it is ``serving``, inventories are kept at the ratios of the configuration's policies.
    Raises :class:`ConfigurationError` where ``[neutron]`` does not tell how to ask it, or
    ``[oslo_messaging_notifications]`` how to tell others.
    """
    database = Database(settings)
    random = random or Random()  # noqa: S311 - chooses hosts, guards nothing
    scheduler = Scheduler(
        database=database,
        settings=settings,
        clock=clock,
        random=random,
        memory=Memory(),
        neutron=neutron_of(settings),
        announcer=announcer_of(settings),
    )
    upkeep = PolicyUpkeep(database, scheduler.live.settings, clock)
    preparation = Preparation(database, settings, clock, upkeep if serving else None)
    return Services(
        settings=settings,
        database=database,
        policy=Policy(settings, RULES),
        metrics=Metrics(),
        clock=clock,
        random=random,
        summaries=Summaries(),
        scheduler=scheduler,
        ready=preparation,
        keep_up=preparation.keep_up,
    )


class Application:
    """All faces under one WSGI callable, with the services they stand on."""

    def __init__(self, services: Services) -> None:
        self.services = services
        faces: dict[Api, WSGI] = {
            Api("placement", "v1.0", "/placement/", *_range(PLACEMENT_VERSIONS)): _placement(
                services
            ),
            Api("compute", "v2.1", "/compute/v2.1/", *_range(COMPUTE_VERSIONS)): Face(
                "compute", COMPUTE_ROUTES, ComputeDialect(), services
            ),
            Api("image", f"v{IMAGE_VERSION}", "/image/v2/"): Face(
                "image", IMAGE_ROUTES, ImageDialect(), services
            ),
            Api("identity", f"v{IDENTITY_VERSION}", "/identity/v3/"): Face(
                "identity", IDENTITY_ROUTES, IdentityDialect(), services
            ),
            Api("scheduler", "v1", "/scheduler/v1"): Face(
                "scheduler", SCHEDULER_ROUTES, SchedulerDialect(), services
            ),
        }
        below = {api.prefix: face for api, face in faces.items()}
        self._outermost = _watched(mounted(below, Root(tuple(faces))), services)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        return self._outermost(environ, start_response)

    def close(self) -> None:
        """Tell others what is left to tell, and close the connections."""
        self.services.scheduler.announcer.close()
        self.services.database.dispose()


def check_parts(settings: Settings, clock: Clock = utcnow) -> None:
    """Raise :class:`ConfigurationError` where a part of the application cannot be as configured.

    A server asks before it starts its workers: none of them could tell the operator.
    """
    database_url(settings)
    plugins_for(settings, clock)
    all_validators()
    check_aliases(settings)
    neutron_of(settings)
    policies_for(options_file.read(settings).settings, clock).check()
    announcer_of(settings)
    if settings.api.auth_strategy == "keystone":
        keystone.check(settings.conf)
    check_files(settings, RULES)


def create_app(
    settings: Settings, *, clock: Clock = utcnow, random: Random | None = None
) -> Application:
    """Return the application with all faces mounted.

    Raises :class:`ConfigurationError` where an enabled plugin is not there, or an installed
    package's validators of extra specs, or where ``[pci] alias`` cannot be, or a policy cannot be
    used, or neutron cannot be asked, or others told, as configured: the first request would find
    that too late.
    """
    check_parts(settings, clock)
    return Application(make_services(settings, clock=clock, random=random, serving=True))


def placement_app(services: Services) -> WSGI:
    """Return the Placement face alone, to be mounted anywhere."""
    return _watched(_placement(services), services)


def _placement(services: Services) -> WSGI:
    return Face("placement", PLACEMENT_ROUTES, PlacementDialect(PLACEMENT_VERSIONS), services)


def _watched(application: WSGI, services: Services) -> WSGI:
    """Return ``application`` behind tokens, and beside it what monitoring asks for without one."""
    beside: dict[str, WSGI] = {"/healthz": Health(services), "/metrics": Scrape(services.metrics)}
    dispatch = mounted(beside, _authenticated(application, services))
    outermost = edged(dispatch, services.settings)
    watched = counted(outermost, services.metrics, services.database.tally)
    return identified(BodyFirst(watched, services.settings.api.max_request_body_size))


def _range(versioning: Versioning) -> tuple[Version, Version]:
    return versioning.oldest, versioning.newest


def _authenticated(application: WSGI, services: Services) -> WSGI:
    """Return ``application`` behind what fills in the headers that its strategy reads."""
    if services.settings.api.auth_strategy == "keystone":
        return keystone.guarded(application, services.settings.conf)
    return application
