"""Runs the gabbi stories: one file is one test, from an empty database, on each database."""

import unittest
from pathlib import Path

import pytest
from gabbi import handlers, suitemaker, utils

STORIES = sorted((Path(__file__).parent / "gabbits").glob("*.yaml"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_story_is_told_as_written(story, app):
    found = [handler() for handler in handlers.RESPONSE_HANDLERS]
    suite = suitemaker.test_suite_from_dict(
        loader=unittest.TestLoader(),
        test_base_name=story.stem,
        suite_dict=utils.load_yaml(yaml_file=str(story)),
        test_directory=str(story.parent),
        host="127.0.0.1",
        port=8778,
        fixture_module=None,
        intercept=lambda: app.app,
        handlers=found,
    )
    result = unittest.TestResult()
    suite.run(result)
    told = [f"{test}\n{reason}" for test, reason in (*result.errors, *result.failures)]
    assert result.testsRun > 0
    assert not told, "\n".join(told)
    assert not result.unexpectedSuccesses


def test_every_noun_of_placement_has_a_story():
    assert {
        "resource-providers",
        "inventories",
        "aggregates",
        "traits",
        "resource-classes",
    } <= {story.stem for story in STORIES}
