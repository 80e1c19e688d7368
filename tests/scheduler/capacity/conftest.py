# SPDX-License-Identifier: Apache-2.0
"""Applications on new databases."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from webtest import TestApp

from tests.conftest import make_settings


@pytest.fixture
def make_new_app(sqlite_template: Path, tmp_path: Path, make_app: Callable[..., TestApp]):
    """Return a function that makes an application on a new database."""

    def made(**values: Any) -> TestApp:
        path = tmp_path / f"{uuid4()}.db"
        shutil.copy(sqlite_template, path)
        # No budget, so that a slow machine counts the same.
        options = {"scheduler__capacity_budget": 0, **values}
        return make_app(make_settings(f"sqlite:///{path}", **options))

    return made
