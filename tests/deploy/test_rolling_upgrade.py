"""Two releases on one database: the last one before the newest revision of the schema, and this.

What the guide's page on upgrades promises: servers of the last release go on while the schema is
brought to this one's and while servers of this release start.
"""

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from placement_sched.db.migrate import newest_revision
from tests.deploy import REQUIRED, run, tool
from tests.empty_databases import KINDS, empty_database
from tests.house.tree import ROOT
from tests.servers import PROGRAM, Server, environment, started

VERSION = "placement 1.39"
RUN = "import sys; from placement_sched.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source as it was before the newest revision came; required in CI, as programs are."""
    (revision,) = (ROOT / "alembic/versions").glob(f"{newest_revision()}_*.py")
    git = [tool("git"), "-C", str(ROOT)]
    log = [*git, "log", "--diff-filter=A", "--format=%H", "-1", "--", str(revision)]
    came = subprocess.run(log, capture_output=True, text=True, timeout=60, check=False)
    of = f"{came.stdout.strip()}^"
    known = subprocess.run(
        [*git, "rev-parse", "--verify", of], capture_output=True, timeout=60, check=False
    )
    if came.returncode or not came.stdout.strip() or known.returncode:
        reason = "the history of the source is not here: clone it whole, with git installed"
        assert not REQUIRED, reason
        pytest.skip(reason)
    archive = subprocess.run(
        [*git, "archive", of, "placement_sched", "alembic"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    folder = tmp_path_factory.mktemp("last_release")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="data")
    return folder


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def release(last_release: Path, url: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Give a function that starts a server of the last release, or of this one."""
    with ExitStack() as stack:

        def start(name: str, *, ready: str | None = "/placement/") -> Server:
            return stack.enter_context(
                started(
                    command=[*program(name, last_release), "serve", "--port", "{port}"],
                    folder=tmp_path,
                    log=tmp_path / f"{name}-{uuid4().hex}.log",
                    ready=ready,
                    variables=variables(name, last_release, url),
                )
            )

        yield start


def program(name: str, last_release: Path) -> list[str | Path]:
    return [sys.executable, "-c", RUN] if name == "last" else [PROGRAM]


def variables(name: str, last_release: Path, url: str) -> dict[str, str]:
    found = environment(
        OS_PLACEMENT_DATABASE__CONNECTION=url, OS_DEFAULT__SERVICE_DOWN_TIME="86400"
    )
    return {**found, "PYTHONPATH": str(last_release)} if name == "last" else found


def sync(name: str, last_release: Path, url: str, folder: Path) -> str:
    return run(
        *(*program(name, last_release), "db", "sync"),
        env=variables(name, last_release, url),
        cwd=folder,
    )


def make_provider(server: Server, vcpus: int) -> str:
    uuid = str(uuid4())
    path = f"/placement/resource_providers/{uuid}"
    server.ask("POST", "/placement/resource_providers", {"uuid": uuid, "name": uuid}, VERSION)
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": vcpus}}}
    server.ask("PUT", f"{path}/inventories", stock, VERSION)
    return uuid


def claim(server: Server, provider: str) -> int:
    body = {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    path = f"/placement/allocations/{uuid4()}"
    return server.send("PUT", path, body, **{"OpenStack-API-Version": VERSION})[0]


def test_both_releases_serve_one_database_while_servers_are_replaced(
    release, last_release, url, tmp_path
):
    sync("last", last_release, url, tmp_path)
    last = release("last")
    before = make_provider(last, 4)
    told = sync("this", last_release, url, tmp_path)
    assert f"revision {newest_revision()}" in told
    # It goes on with the newer schema, reading and writing.
    provider = make_provider(last, 4)
    this = release("this")
    for server in (last, this):
        listed = server.ask("GET", "/placement/resource_providers", version=VERSION)
        assert {one["uuid"] for one in listed["resource_providers"]} == {before, provider}
    # Each sees what the other claims, and neither takes what is gone.
    answers = [claim(server, provider) for _ in range(3) for server in (last, this)]
    assert answers == [204] * 4 + [409] * 2
    assert last.stop() == 0
    assert claim(this, before) == 204


def test_server_of_the_last_release_does_not_begin_on_the_newer_schema(
    release, last_release, url, tmp_path
):
    if url.startswith("sqlite"):
        pytest.skip("an embedded database has one server at a time")
    sync("this", last_release, url, tmp_path)
    last = release("last", ready=None)
    assert last.first_status("/healthz") == 200
    status, _, body = last.get("/healthz/ready")
    assert status == 503
    assert newest_revision() in body.decode()


def test_server_of_this_release_waits_for_its_schema(release, last_release, url, tmp_path):
    if url.startswith("sqlite"):
        pytest.skip("an embedded database is prepared by the server itself")
    sync("last", last_release, url, tmp_path)
    this = release("this", ready=None)
    assert this.first_status("/healthz/ready") == 503
    sync("this", last_release, url, tmp_path)
    this.wait_for("/healthz/ready", 200)
