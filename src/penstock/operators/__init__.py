"""Expensive operators: called once per event at most, as rarely as possible, in the order that decides most for least.

    define       an operator is a Python function with a name, types and a cost
    chains       the conjunctions of a plan, as far as operators decide them, in flat arrays
    strategies   which invocation comes next: naive, sequential, sub-order, adaptive
    invoke       evaluates invocations; `desk` calls one operator, `watched_calls` keeps to its time-out, `breaker`
                 counts its failures in a row, `isolated` calls it in a process of its own
    joints       calls that share variables, and the conditions on those
    learning     how often a predicate holds, and what a call costs
    library      operators that do real work, on places and on images

This room imports nothing of `matching`, which imports it: `matching.operator_stage` puts the parts together.
"""
