# SPDX-License-Identifier: Apache-2.0
"""Parts of responses."""


def get_single_error(answer):
    (error,) = answer.json["errors"]
    return error
