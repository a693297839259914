"""Benchmarks: frozen workloads, and what Penstock and others make of them in one run.

    workloads       subscriptions and events, from seeds, the same for ever
    matching        every engine, a DuckDB join, Spark; what Spark costs; adding, loading, a hostile subscription
    operators       how much each strategy evaluates, beside the operators paper
    covering        how small routing tables get, beside the MBD paper
    joins           every scheme of select-joins, beside their paper
    network         what crosses the links of a network, by each scheme of select-joins
    views           views fed from other views, beside the Delta paper
    baselines       what only benchmarks compare with: other schemes, orders and diagrams of the papers
    benchmark       what a benchmark is: experiments, their figures, tables and plots, and the files these become
    sheets, plots   tables and pictures, before anybody knows where they will be shown
    commands        `python -m benchmarks matching | spark | operators | covering | joins | views | …`

What counts are the ratios: a figure of one machine says little about another's.
"""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"
