# SPDX-License-Identifier: Apache-2.0
"""Configuration files that are read if the command line names none."""

import os
from pathlib import Path

#: The variable that names configuration files, if no option does.
FILES = "PLACEMENT_SCHED_CONFIG"
#: OpenStack placement's variable for the directory of ``placement.conf``.
PLACEMENT_DIRECTORY = "OS_PLACEMENT_CONFIG_DIR"
#: Directory of the configuration directories.
_ETC = Path("/etc")


def find_files(*, of_nova: bool = False) -> list[str]:
    """Return the files to read if the command line names none.

    ``PLACEMENT_SCHED_CONFIG`` names them, separated by colons. Without it they are the existing
    files of OpenStack placement, of nova (``of_nova``), and of this service. Later files override
    earlier files.
    """
    if FILES in os.environ:
        return [name for name in os.environ[FILES].split(":") if name]
    placement = Path(os.environ.get(PLACEMENT_DIRECTORY) or _ETC / "placement") / "placement.conf"
    nova = [_ETC / "nova" / "nova.conf"] if of_nova else []
    files = (placement, *nova, _ETC / "placement_sched" / "placement_sched.conf")
    return [str(file) for file in files if file.is_file()]
