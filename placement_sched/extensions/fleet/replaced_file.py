# SPDX-License-Identifier: Apache-2.0
"""Files that are written in whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from placement_sched.errors import Invalid


@contextmanager
def replace_file(file: Path, *, mode: int = 0o666) -> Iterator[TextIO]:
    """Yield a new file that replaces ``file`` at the end of the block.

    The umask limits ``mode``. After an error, ``file`` is unchanged. Raises :class:`Invalid` if it
    cannot be written.
    """
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            yield output
            output.flush()
            os.fsync(descriptor)
        new.replace(file)
    except OSError as failure:
        raise Invalid(f"{file}: {failure.strerror or failure}") from None
    finally:
        new.unlink(missing_ok=True)
