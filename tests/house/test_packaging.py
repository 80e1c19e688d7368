# SPDX-License-Identifier: Apache-2.0
"""The packages contain the tree, and work outside the repository."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

from placement_sched.api.placement.microversions import VERSIONING
from tests.support.commands import run_captured
from tests.support.repository import IGNORED_COPY_PATTERNS, PACKAGE, ROOT, read_setup_cfg
from tests.support.servers import start_server

pytestmark = pytest.mark.system


def test_alembic_folder_is_not_a_python_package():
    """With an ``__init__.py``, the folder would shadow the library alembic."""
    assert list((ROOT / "alembic").rglob("__init__.py")) == []


@pytest.fixture(scope="module")
def built_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from the sdist alone, as ``make release`` does."""
    source = tmp_path_factory.mktemp("source") / "tree"
    shutil.copytree(ROOT, source, ignore=IGNORED_COPY_PATTERNS)
    target = source.parent / "dist"
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", target, source]
    subprocess.run(build, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return target


#: Folders and files of tools that are not packaged. The code host and git have other hidden names.
GENERATED_NAMES = {"htmlcov", "placement_sched.egg-info"}


def test_sdist_has_every_file_of_the_repository(built_packages):
    tree = built_packages.parent / "tree"
    names = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()}
    expected = {
        str(name)
        for name in names
        if name.parts[0] not in GENERATED_NAMES
        and (not name.parts[0].startswith(".") or name.parts[0] == ".ci")
    }
    (sdist,) = built_packages.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packaged = {name.partition("/")[2] for name in archive.getnames()}
    folders = {"api-ref", "deploy", "devstack", "doc", "examples", "tests"}
    assert folders <= {name.partition("/")[0] for name in packaged}
    assert expected - packaged == set()


@pytest.fixture(scope="module")
def wheel(built_packages: Path) -> Path:
    (wheel,) = built_packages.glob("*.whl")
    return wheel


def test_package_version_is_written_in_a_single_file(built_packages):
    version = read_setup_cfg()["metadata"]["version"]
    assert {path.name for path in built_packages.iterdir()} == {
        f"placement_sched-{version}.tar.gz",
        f"placement_sched-{version}-py3-none-any.whl",
    }
    number = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    copies = [*PACKAGE.rglob("*.py"), *(ROOT / "doc/source").glob("*.py"), ROOT / "pyproject.toml"]
    assert [path for path in copies if number.search(path.read_text())] == []
    image = (ROOT / "deploy/kubernetes/kustomization.yaml").read_text()
    assert f"newTag: {version}\n" in image


def test_wheel_has_modules_migrations_and_type_marker(wheel):
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")}
    migrations = {
        f"placement_sched/_migrations/{path.relative_to(ROOT / 'alembic')}"
        for path in (ROOT / "alembic").rglob("*.py")
    }
    assert modules | migrations <= names
    assert "placement_sched/py.typed" in names
    assert "placement_sched/_migrations/script.py.mako" in names
    files = ("report.css", "templates/report.html", "templates/parts/funnel.html")
    assert {f"placement_sched/cli/report/{name}" for name in files} <= names
    assert not [name for name in names if name.startswith(("tests/", "alembic/"))]


def check_demo_of_program(program: Path, folder: Path) -> None:
    done = run_captured(
        [program, "demo", "--format", "json"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        check=True,
        timeout=600,
    )
    assert json.loads(done.stdout)["cloud"]["hosts"] >= 300


def test_wheel_description_has_only_absolute_links_and_anchors(wheel):
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        description = archive.read(name).decode().partition("\n\n")[2]
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert len(description) > 5000
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "The map, see SECURITY.md, [API](https://x) and [below](#b)."),
        (
            "https://example.org/p",
            (
                "![The map](https://example.org/p/raw/1.0/doc/map.png), see "
                "[SECURITY.md](https://example.org/p/blob/1.0/SECURITY.md), [API](https://x) and "
                "[below](#b)."
            ),
        ),
    ],
    ids=["unpublished", "published"],
)
def test_links_of_the_description_point_to_files_of_the_tag_if_published(url, text, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    describe = import_module("setup").describe
    page = (
        "![The map](doc/map.png), see [SECURITY.md](SECURITY.md), [API](https://x) and [below](#b)."
    )
    assert describe(page, url, "1.0") == text


@pytest.fixture(scope="module")
def installed_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment outside this repository with the wheel and its requirements."""
    home = tmp_path_factory.mktemp("elsewhere") / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=600)
    subprocess.run([home / "bin/pip", "install", "--quiet", wheel], check=True, timeout=600)
    return home


def test_wheel_syncs_and_serves_outside_the_repository(wheel, installed_wheel, tmp_path):
    program = installed_wheel / "bin/placement-sched"
    check_demo_of_program(program, tmp_path)
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    environment = {"PATH": "/usr/bin:/bin", "OS_PLACEMENT_DATABASE__CONNECTION": url}
    synced = run_captured(
        [program, "db", "sync", "--format", "json"],
        cwd=tmp_path,
        env=environment,
        check=True,
        timeout=600,
    )
    assert json.loads(synced.stdout)["revision"]
    server_extra = f"placement_sched[server] @ file://{wheel}"
    subprocess.run(
        [installed_wheel / "bin/pip", "install", "--quiet", server_extra], check=True, timeout=600
    )
    with start_server(folder=tmp_path, variables=environment, program=program) as server:
        assert server.request_json("GET", "/placement/")["versions"][0]["max_version"] == str(
            VERSIONING.newest
        )
        assert server.stop() == 0


#: Programs that the table lists under another program of the same package.
PROGRAMS_OF_LISTED_PACKAGES = {"epmd", "mariadb-install-db", "rabbitmqctl"}


def test_ci_finds_programs_of_postgresql_outside_the_path():
    (line,) = re.findall(r"^\s*compgen .*", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert "'/usr/lib/postgresql/*/bin/initdb'" in line
    assert line.endswith("|| missing+=(postgresql)")


def test_ci_installs_programs_that_tests_need():
    listed = (ROOT / ".ci/run").read_text()
    needed = {
        name
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r'\b(?:tool|which)\("([\w-]+)"', file.read_text())
    }
    assert len(needed) > 5
    needed -= PROGRAMS_OF_LISTED_PACKAGES
    (table,) = re.findall(r"<<'PROGRAMS'\n(.*?)\nPROGRAMS\n", listed, re.DOTALL)
    assert needed <= {line.split()[0] for line in table.splitlines()}
