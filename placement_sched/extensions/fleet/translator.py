# SPDX-License-Identifier: Apache-2.0
"""Option ``--names``: requests and answers of an anonymised cloud."""

import argparse
from importlib import import_module
from pathlib import Path

from placement_sched.model.extension import Translator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of a file of names to a command."""
    help_ = "the file of names of an anonymised cloud: translate the request and the answer"
    parser.add_argument("--names", metavar="FILE", help=help_)


def read_translator(arguments: argparse.Namespace) -> Translator | None:
    """Return the translator of the file of names, None without the option.

    Raises :class:`Invalid` for a wrong file.
    """
    if not arguments.names:
        return None
    anonymize = import_module("placement_sched.extensions.fleet.anonymize")
    translator: Translator = anonymize.NamesTranslator.read(Path(arguments.names))
    return translator
