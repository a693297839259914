"""Expensive operators: called once per event at most, as rarely as can be, in the order that decides most for least.

    define       an operator is a Python function with a name, types and a cost
    chains       what the conjunctions of a plan ask of operators, in flat arrays
    strategies   which invocation comes next: naive, sequential, sub-order, adaptive
    invoke       evaluating invocations; desk: calling one operator; watched_calls: time-outs; breaker:
                 failures in a row; isolated: calling it in a process of its own
    joints       calls that share variables, and the conditions on those
    learning     how often a predicate holds, and what a call costs
    library      operators that do honest work, on places and on images

It imports nothing of `matching`, which imports it: `matching.operator_stage` puts the parts together.
"""
