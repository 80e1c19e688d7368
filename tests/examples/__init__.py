# SPDX-License-Identifier: Apache-2.0
"""The example packages, installed and used as a third party would."""
