"""Routing tables made small, beside the MBD paper: `python -m benchmarks.covering`.

It is `penstock bench covering`, with the results in `benchmarks/results/`; `--help` tells the options.
"""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "covering", "--out", str(RESULTS), *sys.argv[1:]])
