"""All workloads at all sizes, against DuckDB and Spark: `make bench`, or `python -m benchmarks --workload ranges`.

It is `penstock bench matching`, with the results in `benchmarks/results/`; `--help` tells the options.
"""

import sys

from benchmarks import RESULTS
from penstock.cli import app

if __name__ == "__main__":
    app(["bench", "matching", "--out", str(RESULTS), *sys.argv[1:]])
