# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: evaluation of nova-scheduler's requests alongside it, with comparison."""
