"""Evaluations per event of every strategy, beside the operators paper: `python -m benchmarks.operators`.

It is `penstock bench operators`, with the results in `benchmarks/results/`; `--help` tells the options.
"""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "operators", "--out", str(RESULTS), *sys.argv[1:]])
