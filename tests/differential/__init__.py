"""Penstock against DuckDB: random filters on random events give the same rows, to the row."""
