"""A token report over a directory of skills, as `openskills token-report` makes it."""

import os
from pathlib import Path

from openskills.catalog.catalog import Catalog
from openskills.cli.token_report import MODES
from openskills.runtime.token_report import DisclosureMode, TokenReport, measure_tokens
from openskills.settings import Settings

NAMES = {mode: MODES[mode] for mode in DisclosureMode}


async def report_over(skills: Path, home: Path) -> TokenReport:
    """The usual tasks in every way."""
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath})
    return await measure_tokens(Catalog.from_paths(skills, settings=settings), settings=settings)
