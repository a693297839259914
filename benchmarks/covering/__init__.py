"""Benchmarks of covering and merging: section 6 of the MBD paper, its figures beside ours.

    sets           subscriptions and events as the paper describes them
    published      what the paper found
    tables         how small routing tables get, and how long routing then takes
    insertion      what it takes to insert one more: with and without the dependency table, in one pass or two
    thresholds     imperfect merging: size and false positives by threshold, with and without advertisements
    orders         what the order of attributes does to the diagram
    benchmark      all of it, and the figures to beat

`python -m benchmarks covering` runs them.
"""
