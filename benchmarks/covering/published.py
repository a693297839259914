"""What section 6 of the MBD paper has."""

SOURCE = (
    "Li, Hou, Jacobsen: A Unified Approach to Routing, Covering and Merging, ICDCS 2005, section 6"
)

NONE, COVERING, PERFECT, IMPERFECT = "none", "covering", "perfect merging", "imperfect merging"
METHODS = (NONE, COVERING, PERFECT, IMPERFECT)

ROUTING_MS = {  # Table 2, with diagrams
    ("A", NONE): 68.73,
    ("A", COVERING): 19.16,
    ("A", PERFECT): 13.31,
    ("A", IMPERFECT): 9.96,
    ("B", NONE): 82.28,
    ("B", COVERING): 38.15,
    ("B", PERFECT): 33.37,
    ("B", IMPERFECT): 29.19,
}
SCAN_MS = {  # Table 2, a scan of the whole table: as long as that is large
    ("A", NONE): 300.71,
    ("A", COVERING): 73.41,
    ("A", PERFECT): 49.89,
    ("A", IMPERFECT): 43.83,
    ("B", NONE): 300.92,
    ("B", COVERING): 165.38,
    ("B", PERFECT): 152.21,
    ("B", IMPERFECT): 141.06,
}
COVERED = {"A": 0.75, "B": 0.45}  # of all subscriptions
RANDOM_ORDER_MORE = 6_076  # entries after perfect merging, for a random order of attributes
INSERTION_MS = {"without": 23.41, "with": 2.46}  # the dependency table, at 5,000 predicates
ONE_PASS_SAVES = 0.458
FALSE_POSITIVES = (0.1, 0.025)  # a threshold, and the share that it keeps them below
MERGED_LEFT = 0.32852  # of 100,000, at threshold 0
EVENTS_PER_SECOND_TIMES = 100  # our goal against its absolute times


def scan_share(set_name: str, method: str) -> float:
    """The share of a set that is left, from how long a scan takes.

    >>> round(scan_share("A", COVERING), 3)
    0.244
    """
    return SCAN_MS[set_name, method] / SCAN_MS[set_name, NONE]
