"""Views fed from other views, beside their paper: `python -m benchmarks.views`.

It is `penstock bench views`, with the results in `benchmarks/results/`; `--help` tells the options.
"""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "views", "--out", str(RESULTS), *sys.argv[1:]])
