# SPDX-License-Identifier: Apache-2.0
"""Web console: HTML pages on top of the APIs."""

from placement_sched.model.extension import Extension

EXTENSION = Extension(
    options="placement_sched.extensions.console.options:OPTIONS",
    install="placement_sched.extensions.console.routes:install",
    start_line="placement_sched.extensions.console.page:describe_address",
)
