"""The demo: the sample cloud in a database of its own, with requests placed on it for real."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType

from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NoValidHost
from placement_sched.model.clock import Clock
from placement_sched.model.document import Json
from placement_sched.model.explanation import EVERYTHING
from placement_sched.operations.demo import sample_cloud as sample
from placement_sched.operations.fleet.apply import apply
from placement_sched.operations.fleet.merge import merge
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.caches import Memory
from placement_sched.scheduler.plugins import full_conf
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.settings import Settings
from placement_sched.settings.conf import read_files


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """A request spec (contract §4) with a title, a line on it, and a line on what to look at."""

    name: str
    title: str
    asks: str
    look_at: str
    spec: Json


def _image(name: str, os_type: str, **traits: str) -> Json:
    return {
        "name": name,
        "disk_format": "qcow2",
        "container_format": "bare",
        "properties": {"os_type": os_type, "hw_architecture": "x86_64", **traits},
    }


_LINUX = _image("debian-12", "linux")
_WINDOWS = _image("windows-server-2022", "windows", **{f"trait:{sample.WINDOWS_TRAIT}": "required"})


def _spec(
    name: str,
    flavor: tuple[str, int, int, int],
    extra_specs: Mapping[str, str] = MappingProxyType({}),
    image: Json = _LINUX,
    count: int = 1,
) -> Json:
    """Return a request spec; a flavor is its name, virtual CPUs, memory in MB and disk in GB."""
    sizes = zip(("name", "vcpus", "memory_mb", "root_gb"), flavor, strict=True)
    return {
        "project_id": sample.uuid_of("project"),
        "user_id": sample.uuid_of("user"),
        "flavor": {**dict(sizes), "extra_specs": dict(extra_specs)},
        "image": image,
        "instance_uuids": [sample.uuid_of(f"request/{name}/{n}") for n in range(1, count + 1)],
    }


_ON_SSD = {"trait:STORAGE_DISK_SSD": "required"}
#: The requests in the order in which they are placed.
REQUESTS = (
    SampleRequest(
        name="plain",
        title="A plain Linux server",
        asks="2 vCPUs, 4 GiB, 40 GB of disk; the image is built for x86_64.",
        look_at="Each stage shows how many hosts it rejected and why, with an example.",
        spec=_spec("plain", ("m.medium", 2, 4_096, 40)),
    ),
    SampleRequest(
        name="windows",
        title="A Windows server",
        asks=f"4 vCPUs, 8 GiB; the image has trait:{sample.WINDOWS_TRAIT}=required.",
        look_at="The licensed-windows aggregate is open to it; only its hosts are left.",
        spec=_spec("windows", ("m.large", 4, 8_192, 80), image=_WINDOWS),
    ),
    SampleRequest(
        name="gpu",
        title="A GPU worker",
        asks=f"The flavor has resources:VGPU=1 and trait:{sample.GPU_TRAIT}=required.",
        look_at="VGPU removes hosts without GPUs, and those that have none free.",
        spec=_spec(
            "gpu",
            ("g.large", 8, 49_152, 160),
            {"resources:VGPU": "1", f"trait:{sample.GPU_TRAIT}": "required"},
        ),
    ),
    SampleRequest(
        name="ten",
        title="Ten database servers at once, all or none",
        asks="16 vCPUs and 64 GiB each, on SSD, in az2, with QEMU 6.2 or newer.",
        look_at="Each sees what those before it took, so they spread over many hosts.",
        spec=_spec(
            "ten",
            ("r.2xlarge", 16, 65_536, 400),
            _ON_SSD | {"capabilities:hypervisor_version": ">= 6002000"},
            count=10,
        )
        | {"availability_zone": "az2"},
    ),
    SampleRequest(
        name="impossible",
        title="One that cannot be: a confidential server",
        asks="32 vCPUs, 256 GiB, on SSD, its memory encrypted by AMD SEV-SNP.",
        look_at="The last line names the one constraint without which hosts would fit.",
        spec=_spec(
            "impossible",
            ("c.confidential", 32, 262_144, 500),
            _ON_SSD | {"trait:HW_CPU_X86_AMD_SEV_SNP": "required"},
        ),
    ),
)

DATABASE_NAME = "placement_sched.db"
CONFIG_NAME = "demo.conf"
#: The hosts of the demo report once only; so long they count as up. Less than the silent host's
#: silence.
_UP_FOR = timedelta(days=7)
_CONFIG = """\
# The sample cloud of placement-sched demo.

[DEFAULT]
# Its hosts have reported once and will not again: they count as up for a week.
service_down_time = {up_for}

[placement_database]
connection = sqlite:///{database}

[scheduler]
# Keep aggregates with metadata trait:X=required for requests that require X.
enable_isolated_aggregate_filtering = true
"""


@dataclass(frozen=True, slots=True)
class Placing:
    """How a request went: its explanation, and what was selected and claimed.

    ``selected`` has, for each instance, its uuid (``instance``) beside its selection; it is empty
    where ``refused`` says why there is none.
    """

    request: SampleRequest
    explanation: Json
    selected: tuple[Json, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """The sample cloud as a fleet document, and the scheduler that places requests on it."""

    cloud: Json
    scheduler: Scheduler

    def place(self, request: SampleRequest) -> Placing:
        """Explain a request, then select and claim for it, on the same state of the cloud."""
        explanation = self.scheduler.explain(request.spec, overrides={}, view=EVERYTHING)
        try:
            answer = self.scheduler.select_destinations(request.spec)
        except NoValidHost as refusal:
            return Placing(request, explanation, refused=refusal.detail)
        pairs = zip(request.spec["instance_uuids"], answer["selections"], strict=True)
        selected = tuple({"instance": uuid, **best} for uuid, (best, *_) in pairs)
        return Placing(request, explanation, selected)


@contextmanager
def opened(directory: Path, clock: Clock, random: Random) -> Iterator[Demo]:
    """Give the demo, its database and its configuration file made in ``directory``.

    It has no other settings. Raises :class:`Invalid` for a directory that has a demo already,
    that cannot be written to, or whose name cannot stand in a database URL.
    """
    settings = Settings.from_conf(
        read_files(full_conf(), [str(_configured(directory))], alone=True)
    )
    database = Database(settings)
    try:
        now = clock()
        cloud = sample.sample_cloud(now) | {
            "flavors": [request.spec["flavor"] for request in REQUESTS],
            "images": [_LINUX, _WINDOWS],
        }
        sync(database, clock)
        database.write(partial(load, cloud=cloud, settings=settings, now=now))
        scheduler = Scheduler(
            database=database, settings=settings, clock=clock, random=random, memory=Memory()
        )
        yield Demo(cloud, scheduler)
    finally:
        database.dispose()


def load(connection: Connection, cloud: Json, settings: Settings, now: datetime) -> None:
    """Make a cloud within the caller's write transaction, as loading a fleet file does."""
    apply(connection, merge(connection, cloud, settings, now), lambda _what: None)


def _configured(directory: Path) -> Path:
    database, config = directory / DATABASE_NAME, directory / CONFIG_NAME
    for path in (database, config):
        if path.exists():
            raise Invalid(f"{path} is there already; name another directory, or remove it")
    url = str(database.resolve())
    if "?" in url or not url.isprintable():
        raise Invalid(f"{directory}: a name with '?' or control characters fits in no database URL")
    text = _CONFIG.format(
        up_for=int(_UP_FOR.total_seconds()),
        # oslo.config takes a single one for a reference to another option.
        database=url.replace("$", "$$"),
    )
    try:
        config.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Invalid(f"{config}: {failure.strerror}") from None
    return config
