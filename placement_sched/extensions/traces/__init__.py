# SPDX-License-Identifier: Apache-2.0
"""Traces of servers, which run again with other settings or hardware."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    commands={
        "placement_sched.extensions.traces.trace_command": {
            "trace": "run the requests of a period again with other settings or hardware"
        }
    }
)
