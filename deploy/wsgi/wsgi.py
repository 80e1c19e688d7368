# SPDX-License-Identifier: Apache-2.0
"""WSGI script of mod_wsgi, which sets the path of the configuration."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("PLACEMENT_SCHED_CONFIG", "/etc/placement_sched/placement_sched.conf")

# /metrics adds up the figures of all processes of this Apache, which are in files of a folder.
# Another account could have created the folder in /tmp before.
folder = Path(tempfile.gettempdir(), f"placement_sched_{os.getppid()}")
folder.mkdir(mode=0o700, exist_ok=True)
if folder.lstat().st_uid != os.geteuid():
    raise PermissionError(f"{folder} belongs to another account: remove it")
os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(folder))

from placement_sched.wsgi import application  # noqa: E402 - it reads the environment when loaded

__all__ = ["application"]
