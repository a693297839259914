"""python -m examples.stocks_and_reviews"""

import contextlib
import tempfile

from examples.stocks_and_reviews import run

from penstock.cli.spark import session

with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), session("local[2]", "demo"):
    run()
