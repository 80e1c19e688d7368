# SPDX-License-Identifier: Apache-2.0
"""HTML reports of explanations, decisions and capacities."""
