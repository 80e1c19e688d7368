# SPDX-License-Identifier: Apache-2.0
"""nova's own functional tests, with this service in placement's place."""
