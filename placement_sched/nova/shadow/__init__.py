# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: evaluates nova-scheduler's requests alongside it and compares the results."""
