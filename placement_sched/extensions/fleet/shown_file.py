# SPDX-License-Identifier: Apache-2.0
"""``--fleet``: commands and servers that read a fleet file.

The first command loads the file into an SQLite database, which is kept next to it (or in the cache
folder of the user, if the folder of the file is not writable). The name of the database has a
digest of the file and of the settings of the load, and the time of the file. Nothing writes to it.
"""

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from glob import escape
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any
from urllib.parse import quote

from placement_sched.cli.arguments import WrongArguments, rejected_arguments
from placement_sched.cli.output import read_text, show_waiting
from placement_sched.config.conf import restart_options
from placement_sched.config.settings import Settings
from placement_sched.db.migrate import get_newest_revision
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, Unavailable
from placement_sched.model.clock import read_timestamp, utcnow
from placement_sched.model.compute_node import RATIOS
from placement_sched.operations.fleet.cloud import STANDARD_CLASSES, STANDARD_TRAITS
from placement_sched.operations.fleet.load import apply
from placement_sched.operations.fleet.merge import merge
from placement_sched.operations.prepare import sync
from placement_sched.operations.reports import build_defaults
from placement_sched.scheduler.plugins import make_full_conf
from placement_sched.scheduler.plugins import read_settings as read_files
from placement_sched.schemas.yaml_file import YamlFile

#: Time after which an unused database of an earlier content of the file is deleted.
_KEPT = timedelta(days=7)
_DIGEST_CHARACTERS = 16
#: Options of nova.conf that have an effect only at the start, but belong to its scheduling.
_SCHEDULING = {
    ("filter_scheduler", "nova_shim"),
    *(("DEFAULT", f"initial_{ratio}") for ratio in RATIOS.values()),
}
_DEFAULTS_HINT = (
    "placement-sched: filters, weighers and ratios are nova's defaults: name the nova.conf of the "
    "cloud with --nova-conf\n"
)


def add_arguments(parser: argparse.ArgumentParser, *, has_login: bool) -> None:
    """Add the options to a command that reads the cloud, or serves it.

    A command that ``has_login`` can also read the cloud first, over its APIs.
    """
    group = parser.add_argument_group("fleet file")
    group.add_argument(
        "--fleet",
        metavar="FILE",
        help="read the cloud in this fleet file instead of a database or server. Nothing is "
        "changed",
    )
    group.add_argument(
        "--nova-conf",
        metavar="FILE",
        help="with --fleet: use the filters, weighers and ratios of this nova.conf (default: "
        "nova's defaults, and the files of --config-file)",
    )
    if has_login:
        group.add_argument(
            "--look",
            action="store_true",
            help="first read the cloud of --os-cloud over its public APIs, and write it to FILE of "
            "--fleet, or to the cache folder. Without --look, --os-cloud uses the scheduler API "
            "of that cloud",
        )


def is_selected(arguments: argparse.Namespace) -> bool:
    """Return whether a command reads a fleet file."""
    return any(getattr(arguments, name, None) for name in ("fleet", "look", "nova_conf"))


def get_place(arguments: argparse.Namespace) -> str:
    """Return the path of the file, once it is read."""
    return str(arguments.fleet)


def read_settings(arguments: argparse.Namespace) -> Settings:
    """Return settings for the database of the file, which may be loaded first.

    Raises :class:`WrongArguments` for a wrong file, with the place, and for options that cannot be
    combined, and :class:`Unavailable` if the extension is disabled.
    """
    is_look: bool = getattr(arguments, "look", False)
    for name in ("url", "token", *(() if is_look else ("os_cloud",))):
        if getattr(arguments, name, None) is not None:
            raise WrongArguments(f"--{name.replace('_', '-')} cannot be combined with --fleet")
    if not arguments.fleet and not is_look:
        raise WrongArguments("--nova-conf needs --fleet FILE")
    settings = _read_scheduling(arguments)
    if "fleet" in settings.DEFAULT.disabled_extensions:
        raise Unavailable("the extension fleet is disabled by [DEFAULT] disabled_extensions")
    with rejected_arguments():
        if is_look:
            _look(arguments, settings)
        return _open_file(Path(arguments.fleet), settings)


def _read_scheduling(arguments: argparse.Namespace) -> Settings:
    """Read the explicit configuration files, and the scheduling of nova.conf.

    Other options of nova.conf, such as databases, logs and keystone, have no effect.
    """
    is_default = getattr(arguments, "is_default_config", False)
    files = [] if is_default else arguments.config_file
    if arguments.nova_conf is None:
        if not files:
            sys.stderr.write(_DEFAULTS_HINT)
        return read_files(files)
    of_nova = read_files([str(Path(arguments.nova_conf).resolve()), *files], make_full_conf())
    own = read_files(files)  # last, as other parts of the process use these files
    fixed = restart_options() - _SCHEDULING
    groups = {
        group: {name: (own if (group, name) in fixed else of_nova)[group, name] for name in members}
        for group, members in of_nova.registered.items()
    }
    return Settings(own.conf, of_nova.registered, groups, of_nova.sections)


def _look(arguments: argparse.Namespace, settings: Settings) -> None:
    """Read the cloud over its APIs, and write its file."""
    fetch_command: Any = import_module("placement_sched.extensions.fleet.fetch_command")
    if not arguments.fleet:
        cloud_name = fetch_command.get_cloud_name(arguments)
        folder = _make_cache_folder()
        arguments.fleet = str(folder / f"{quote(cloud_name, safe='')}.yaml")
    options = {"file": arguments.fleet, "parallel": 8, "rate": None, "all_aggregates": False}
    _, cloud = fetch_command.fetch(argparse.Namespace(**{**vars(arguments), **options}), settings)
    titles = [fetch_command.FACTS[fact].title for fact in cloud.missing]
    sys.stderr.write(f"placement-sched: the answers lack: {', '.join(titles)}\n")


def _make_cache_folder() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "placement-sched")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _open_file(file: Path, settings: Settings) -> Settings:
    """Return settings for the database of a file, or raise :class:`Invalid`."""
    text = read_text(str(file))
    folder = file.resolve().parent
    if not os.access(folder, os.W_OK):
        folder = _make_cache_folder()
    stem = f".{file.name}.{_compute_digest(text, settings)}"
    database = next(folder.glob(f"{escape(stem)}.*.db"), None)
    if database is None:
        with show_waiting(f"loading {file}"), _pause_collection():
            database = _load(file, text, folder, stem, settings)
        _delete_unused(folder, file.name)
    database.touch()
    seconds = int(database.suffixes[-2][1:])
    return settings.with_overrides({**_locate(database), "placement_database.shown_at": seconds})


@contextmanager
def _pause_collection() -> Iterator[None]:
    # It would take a third of the time of a load.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _compute_digest(text: str, settings: Settings) -> str:
    """Return a digest of all that the content of the database depends on."""
    lines = [
        (line.group, line.dest, line.value)
        for section in settings.sections.values()
        for line in section
    ]
    parts = (
        version("placement_sched"),
        get_newest_revision(),
        sorted(STANDARD_CLASSES | STANDARD_TRAITS),
        build_defaults(settings, read_timestamp(0)),
        settings.unknown_owner,
        lines,
        text,
    )
    return sha256(repr(parts).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _locate(database: Path) -> dict[str, Any]:
    """Return the options for a database, without other databases."""
    if "?" in str(database):
        raise Invalid(f"{database}: a path with ? is not supported")
    return {
        "placement_database.connection": f"sqlite:///{database}",
        "placement_database.connection_parameters": "",
        "api_database.connection": None,
    }


def _load(file: Path, text: str, folder: Path, stem: str, settings: Settings) -> Path:
    """Load a file into a new database, which appears when it is complete."""
    document = YamlFile(text, str(file))
    if document.data is None:
        raise Invalid(f"{file}:1:1: the file is empty")
    now = utcnow()

    def load(connection: Connection) -> datetime:
        def write(data: Any) -> datetime:
            merge_state = merge(connection, data, settings, now)
            apply(connection, merge_state)
            services = merge_state.after.services.values()
            heartbeats = [item.last_seen_up for item in services if item.last_seen_up]
            return min(now, max(heartbeats, default=now))

        return document.read(write)

    with TemporaryDirectory(prefix=".placement-sched-", dir=folder) as scratch:
        new = Path(scratch, "new.db")
        options = _locate(new) | {
            "placement_database.sqlite_synchronous": False,
            "placement.providers_in_memory": False,
        }
        own = settings.with_overrides(options)
        with Database(own) as database:
            sync(database, utcnow)
            moment = database.write(load)
        # The triggers, which a server expects, would make the load slow.
        with Database(own.with_overrides({"placement.providers_in_memory": True})) as database:
            sync(database, utcnow)
        new.chmod(file.stat().st_mode & 0o666 | 0o600)  # with the readers of the file
        seconds = int(moment.replace(tzinfo=UTC).timestamp())
        return new.rename(folder / f"{stem}.{seconds}.db")


def _delete_unused(folder: Path, name: str) -> None:
    """Delete databases of earlier contents of a file."""
    oldest = time() - _KEPT.total_seconds()
    for database in folder.glob(f".{escape(name)}.*.db"):
        if database.stat().st_mtime < oldest:
            database.unlink(missing_ok=True)
