# SPDX-License-Identifier: Apache-2.0
"""Podman with a temporary storage and a local base image.

Nothing is pulled from a registry. The base image is the Debian of the how-tos with its Python, and
pip installs the packages that were downloaded for the how-tos.
"""

import os
import resource
import textwrap
from pathlib import Path

import pytest

from tests.deploy import TOOLS_REQUIRED, debian, find_program, run_program
from tests.deploy.page_reader import list_packages_of_pages
from tests.support.repository import ROOT

#: Name of the image in place of Docker's base image.
BASE_IMAGE = f"localhost/python:{debian.PYTHON_VERSION}-slim"
_BASE_IMAGE_FILE = """\
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
    """Runs ``docker`` commands with podman. Containers have only a loopback network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/docker").symlink_to(find_program("podman"))
        self._variables = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            # Docker's format has health checks. A build needs neither network nor cgroups.
            "BUILDAH_FORMAT": "docker",
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(self._write_settings()),
            "CONTAINERS_STORAGE_CONF": str(self._write_storage_settings()),
        }

    def _write_settings(self) -> Path:
        """Write podman's settings, which need neither systemd nor higher limits."""
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

    def _write_storage_settings(self) -> Path:
        file = self._folder / "storage.conf"
        places = f'graphroot = "{self._folder}/images"\nrunroot = "{self._folder}/running"\n'
        file.write_text(f'[storage]\ndriver = "overlay"\n{places}')
        return file

    def build_base_image(self) -> str:
        """Build the base image and return the build options for it."""
        debian.prepare_debian(list_packages_of_pages())
        file = self._folder / "base"
        file.write_text(
            _BASE_IMAGE_FILE.format(base=debian.BASE_FOLDER.name, wheels=debian.WHEELS_PATH)
        )
        self.run_line(
            f"docker build --layers=false --tag {BASE_IMAGE} --file {file}"
            f" {debian.MACHINE_CACHE_FOLDER}"
        )
        volume = f"{debian.WHEELS_FOLDER}:{debian.WHEELS_PATH}:ro"
        return f"--build-arg PYTHON={debian.PYTHON_VERSION} --volume {volume}"

    def run_line(self, line: str, status: int = 0) -> str:
        """Run a line in the root of the checkout and return its output."""
        return run_program("bash", "-c", line, status=status, cwd=ROOT, env=self._variables)


def skip_without_podman() -> None:
    """Skip the test if podman cannot run containers, or fail if CI requires it."""
    find_program("podman")
    find_program("runc")
    debian.skip_without_machines()
    if os.geteuid() != 0:
        assert not TOOLS_REQUIRED, "the base image needs root"
        pytest.skip("the base image needs root")
