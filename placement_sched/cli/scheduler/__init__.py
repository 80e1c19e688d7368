# SPDX-License-Identifier: Apache-2.0
"""Commands of the scheduler, with a server or the configured database."""
