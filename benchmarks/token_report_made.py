"""A token report over a directory of skills, as `openskills bench token-report` makes it."""

import os
from pathlib import Path

from openskills.bench.tasks import default_tasks, read_library
from openskills.bench.token_report import DisclosureMode, TokenReport, best_counter, token_report
from openskills.catalog.catalog import Catalog
from openskills.settings import Settings

NAMES = {
    DisclosureMode.PROGRESSIVE: "progressive disclosure",
    DisclosureMode.BODIES: "all bodies in the prompt",
    DisclosureMode.EVERYTHING: "all bodies and documents in it",
}


async def report_over(skills: Path, home: Path) -> TokenReport:
    """The usual tasks in every way."""
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath})
    catalog = Catalog.from_paths(skills, settings=settings)
    library = read_library(catalog.skills)
    return await token_report(catalog, library, default_tasks(library.skills), best_counter(), settings)
