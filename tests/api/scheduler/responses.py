# SPDX-License-Identifier: Apache-2.0
"""Parts of responses."""


def get_single_error(response):
    (error,) = response.json["errors"]
    return error
