"""Benchmarks of expensive operators: how much each strategy evaluates, beside the operators paper.

    instances      subscriptions and events as the paper draws them
    rounds         letting a strategy decide events whose truth is known beforehand
    experiments    what is varied, and what the paper published;  `trial`: one instance, all strategies
    ordering       what ordering beforehand takes, and how far changes lead it astray
    exact, small   the optimum of small instances, and how far from it the strategies are
    wall           time as a user sees it, with an operator of a millisecond
    tables, plots  figures as those;  `benchmark`: all of it

`python -m benchmarks operators` runs them.
"""
