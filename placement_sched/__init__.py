# SPDX-License-Identifier: Apache-2.0
"""An OpenStack Placement API and scheduler that explains its decisions."""
