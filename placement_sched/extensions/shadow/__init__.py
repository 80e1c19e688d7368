# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: comparison of nova-scheduler's choices with this service."""
