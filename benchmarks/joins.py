"""Every scheme of select-joins, beside their paper: `python -m benchmarks.joins`.

It is `penstock bench joins`, with the results in `benchmarks/results/`; `--help` tells the options.
"""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "joins", "--out", str(RESULTS), *sys.argv[1:]])
