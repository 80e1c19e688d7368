# SPDX-License-Identifier: Apache-2.0
"""Hardware requests of flavors and images, and devices of hosts.

Reading a request raises :class:`~placement_sched.errors.Invalid` if extra specs and image
properties contradict each other or cannot be satisfied. The error has their names.
"""
