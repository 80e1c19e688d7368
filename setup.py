# SPDX-License-Identifier: Apache-2.0
"""The packages, and the long description: README.md with links that work outside of the repository.

``setup.cfg`` has everything else. Without a ``url`` there, links to files of the repository become
plain text. The folder alembic/ is shipped under a private name. It is at the top level without an
``__init__.py``, so that it cannot shadow the library.
"""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
#: A link or picture of Markdown whose target is a file of the repository.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)]+)\)")


def describe(text: str, url: str, version: str) -> str:
    """Return Markdown with absolute links to the tag of a version."""

    def replace(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        folder = "raw" if mark else "blob"
        return f"{mark}[{label}]({url}/{folder}/{version}/{target})" if url else label

    return LINK.sub(replace, text)


if __name__ == "__main__":
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    metadata = config["metadata"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    migrations = "placement_sched._migrations"
    setup(
        packages=[
            *find_packages(include=["placement_sched*"]),
            migrations,
            f"{migrations}.versions",
        ],
        long_description=describe(readme, metadata.get("url", ""), metadata["version"]),
    )
