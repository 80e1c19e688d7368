# SPDX-License-Identifier: Apache-2.0
"""Extensions, which the core finds through entry points and never imports."""
