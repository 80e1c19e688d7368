# SPDX-License-Identifier: Apache-2.0
"""nova's functional tests with this service in place of placement."""
