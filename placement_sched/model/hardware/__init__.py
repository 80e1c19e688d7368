# SPDX-License-Identifier: Apache-2.0
"""Hardware requests of flavors and images, and devices of hosts.

Values and pure functions. Reading a request raises :class:`~placement_sched.errors.Invalid`, with
the names of the extra spec and the image property, if they contradict each other or cannot be
satisfied.
"""
