# SPDX-License-Identifier: Apache-2.0
"""Operators' jobs, which the command line and the HTTP APIs share."""

from collections.abc import Callable

#: Callback for the progress of a job: the amount done, and the total (None if unknown).
Progress = Callable[[int, int | None], None]
