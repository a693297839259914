"""Expensive operators: called once per event at most, as rarely as can be, in the order that decides most for least.

define       an operator is a Python function with a name, types and a cost
chains       what the conjunctions of a plan ask of operators, in flat arrays
strategies   which call comes next: naive, sequential, sub-order, adaptive
invoke       calling: time-outs, failures, circuit breakers
learning     how often a predicate holds, and what a call costs
"""
