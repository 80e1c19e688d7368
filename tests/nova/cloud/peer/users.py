# SPDX-License-Identifier: Apache-2.0
"""A filter of api-paste.ini in place of keystone's, with tokens ``user[:project]``."""


class TokenHeadersMiddleware:
    """Sets the headers of keystone's middleware from the token."""

    def __init__(self, application):
        self._application = application

    def __call__(self, environ, start_response):
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if not token:
            start_response("401 Unauthorized", [("Content-Length", "0")])
            return [b""]
        user, _, project = token.partition(":")
        environ["HTTP_X_USER_ID"] = user
        environ["HTTP_X_PROJECT_ID"] = project or user
        environ["HTTP_X_ROLES"] = "admin,member,reader" if user == "admin" else "member,reader"
        environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        return self._application(environ, start_response)


def filter_factory(_configuration, **_options):
    return TokenHeadersMiddleware
