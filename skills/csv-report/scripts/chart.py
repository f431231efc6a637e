#!/usr/bin/env python3
"""Draw columns of a CSV or TSV file as a bar or line chart: one SVG file, readable on light and dark pages.

Exit status: 0 done, 2 wrong argument or unreadable file, 3 the file holds nothing that can be drawn.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tables.asking import number_of, parser_for, write  # noqa: E402
from tables.drawing import LIGHT, svg  # noqa: E402
from tables.plot import COMBINE, Wanted, plot_of  # noqa: E402
from tables.reading import Fault, header_of, rows_of  # noqa: E402

EXAMPLES = """examples:
  chart.py sales.csv                            bars: the first column of numbers, by the first other column
  chart.py sales.csv --x month --y amount --y cost --output sales.svg
  chart.py sales.csv --x region --y amount --combine mean
  chart.py requests.csv --x status --combine count      how many rows there are for each status
  chart.py prices.csv --kind line --x date --y price --title "Prices since 2020"

Columns are given by name or by number, from 1. Lines have a true scale of time or numbers where all of x is
YYYY-MM, YYYY-MM-DD, YYYY-MM-DD HH:MM or numbers. A bare name of --output lies in $OUTPUT_DIR, where that is set.
"""


def arguments() -> argparse.Namespace:
    parser = parser_for(__doc__ or "", EXAMPLES)
    parser.add_argument("--kind", choices=("bar", "line"), default="bar", help="(default: bar)")
    parser.add_argument("--x", metavar="COLUMN", help="below the chart (default: the first column without numbers)")
    add = parser.add_argument
    add("--y", metavar="COLUMN", action="append", default=[], help="values (default: the first column of numbers)")
    add("--combine", choices=COMBINE, default="sum", help="for rows with the same x (default: sum)")
    add("--bars", type=number_of, default=40, metavar="N", help="at most so many, the largest ones (default: 40)")
    parser.add_argument("--title", help="(default: the values and the file)")
    parser.add_argument("--width", type=number_of, default=800, metavar="N", help="in pixels (default: 800)")
    parser.add_argument("--height", type=number_of, default=450, metavar="N", help="in pixels (default: 450)")
    add("--output", type=Path, default=Path("chart.svg"), metavar="FILE", help="(default: chart.svg)")
    options = parser.parse_args()
    if len(options.y) > len(LIGHT):
        parser.error(f"argument --y: at most {len(LIGHT)} columns can be told apart")
    if max(options.width, options.height) > 10_000 or options.bars > 1_000:
        parser.error("arguments --width, --height, --bars: at most 10,000 pixels and 1,000 bars")
    return options


def main() -> int:
    options = arguments()
    path: Path = options.table
    try:
        rows = rows_of(path, options.delimiter, options.encoding)
        wanted = Wanted(options.x, options.y, options.combine, options.kind, options.bars)
        plot = plot_of(header_of(rows, path), rows, wanted)
        title = options.title or f"{plot.y_name} by {plot.x_name} ({path.name})"
        write(svg(plot, options.kind, title, options.width, options.height), options.output)
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return fault.status
    said = f"{options.output.name}: {options.kind} chart, {plot.y_name} by {plot.x_name}, {len(plot.labels):,} places"
    sys.stdout.buffer.write(("; ".join([said, *plot.notes]) + "\n").encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
