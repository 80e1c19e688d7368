# SPDX-License-Identifier: Apache-2.0
"""Podman, with storage of its own and a base image that stands in for Docker's.

No registry is asked: the image that the container file begins with is a Debian with its Python,
made of the one that the how-tos are typed on, and pip installs what was downloaded for that.
"""

import os
import resource
import textwrap
from pathlib import Path

import pytest

from tests.deploy import REQUIRED, debian, find_program, run
from tests.deploy.test_pages_on_a_machine import list_packages
from tests.support.repository import ROOT

#: The image that stands in for Docker's, by its name.
BASE = f"localhost/python:{debian.PYTHON}-slim"
_BASE = """\
FROM scratch
COPY {base} /
RUN DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes --no-download --no-install-recommends \\
        install python3-venv \\
    && python3 -m venv /usr/local/python \\
    && ln -s /usr/local/python/bin/pip /usr/local/bin/pip \\
    && ln -s /usr/bin/python3 /usr/local/bin/python \\
    && printf '[global]\\nno-index = true\\nfind-links = {wheels}\\n' > /etc/pip.conf \\
    && rm -rf /var/cache/apt /var/lib/apt
"""


class Docker:
    """What is typed for ``docker``, by podman: its containers have no network but their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/docker").symlink_to(find_program("podman"))
        self._variables = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            # Docker's format has health checks; a build needs no network and no cgroups.
            "BUILDAH_FORMAT": "docker",
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(self._settings()),
            "CONTAINERS_STORAGE_CONF": str(self._storage()),
        }

    def _settings(self) -> Path:
        """Write podman's settings: nothing that has to ask systemd, or raise a limit."""
        limits = []
        for name in ("nofile", "nproc"):
            soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
            limits.append(f'"{name}={min(soft, 4096)}:{min(hard, 4096)}"')
        file = self._folder / "containers.conf"
        file.write_text(
            textwrap.dedent(f"""\
            [containers]
            netns = "none"
            default_ulimits = [{", ".join(limits)}]
            [engine]
            runtime = "{Path(find_program("runc")).name}"
            cgroup_manager = "cgroupfs"
            events_logger = "file"
            """)
        )
        return file

    def _storage(self) -> Path:
        file = self._folder / "storage.conf"
        places = f'graphroot = "{self._folder}/images"\nrunroot = "{self._folder}/running"\n'
        file.write_text(f'[storage]\ndriver = "overlay"\n{places}')
        return file

    def make_base(self) -> str:
        """Make the image that the container file begins with; return the option that names it."""
        debian.prepare(list_packages())
        file = self._folder / "base"
        file.write_text(_BASE.format(base=debian.BASE.name, wheels=debian.OF_PIP))
        self.type(f"docker build --layers=false --tag {BASE} --file {file} {debian.KEPT}")
        return f"--build-arg PYTHON={debian.PYTHON} --volume {debian.WHEELS}:{debian.OF_PIP}:ro"

    def type(self, line: str, status: int = 0) -> str:
        """Type a line in the root of the checkout; return what it printed."""
        return run("bash", "-c", line, status=status, cwd=ROOT, env=self._variables)


def require_podman() -> None:
    """Skip the test where podman may not run containers; fail where that is required."""
    find_program("podman")
    find_program("runc")
    debian.require_machines()
    if os.geteuid() != 0:
        assert not REQUIRED, "the base image needs root"
        pytest.skip("the base image needs root")
