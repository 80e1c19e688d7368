# SPDX-License-Identifier: Apache-2.0
"""Jobs of operators, for the command line and the HTTP APIs."""

from collections.abc import Callable

#: Callback for the progress of a job: the amount done, and the total (None if unknown).
Progress = Callable[[int, int | None], None]
