"""What Spark costs around an engine: `python -m benchmarks.spark`, which is `penstock bench spark`."""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "spark", "--out", str(RESULTS), *sys.argv[1:]])
