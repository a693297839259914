"""`make bench`, and where its results go. What is measured, and how, is `penstock.bench`; tests never assert a time."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"
