# SPDX-License-Identifier: Apache-2.0
"""The part of the compute API that operators use to describe the cloud."""
