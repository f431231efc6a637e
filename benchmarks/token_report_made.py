"""A token report over a directory of skills, as `openskills bench token-report` makes it."""

import os
from pathlib import Path

from openskills.bench.counting import best_counting
from openskills.bench.library import read_library
from openskills.bench.tasks import usual_tasks
from openskills.bench.token_report import TokenReport, Way, token_report
from openskills.catalog.catalog import Catalog
from openskills.settings import Settings

NAMES = {
    Way.PROGRESSIVE: "progressive disclosure",
    Way.BODIES: "all bodies in the prompt",
    Way.EVERYTHING: "all bodies and documents in it",
}


async def report_over(skills: Path, home: Path) -> TokenReport:
    """The usual tasks in every way."""
    settings = Settings.from_env({"HOME": str(home), "PATH": os.defpath})
    catalog = Catalog.from_paths(skills, settings=settings)
    library = read_library(catalog.skills)
    return await token_report(catalog, library, usual_tasks(library.skills), best_counting(), settings)
