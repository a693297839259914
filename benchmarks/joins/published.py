"""What section 6 of the select-joins paper has in numbers; most of its figures are curves without any."""

SOURCE = (
    "Chandramouli, Yang: End-to-End Support for Joins in Large-Scale Publish/Subscribe Systems, "
    "VLDB 2008, section 6"
)

OURS = "ref-sj-clu+"
TITLES = {
    "enum-j": "Enum-J",
    "enum-sj": "Enum-SJ",
    "ref-j": "Ref-J",
    "ref-j+": "Ref-J+",
    "rel-sel": "Rel-Sel",
    "ref-sj-sub": "Ref-SJ-Sub",
    "ref-sj-tup": "Ref-SJ-Tup",
    "ref-sj-clu": "Ref-SJ-Clu",
    "ref-sj-clu+": "Ref-SJ-Clu+",
}

STRESS_KB = {  # Table 3, per event, by the number of subscriptions
    "enum-j": {100_000: 484.8, 300_000: 1464.0, 500_000: 2461.5},
    "enum-sj": {100_000: 27.3, 300_000: 82.0, 500_000: 137.6},
    "ref-j+": {100_000: 13.4, 300_000: 14.3, 500_000: 14.6},
    "rel-sel": {100_000: 0.86, 300_000: 0.95, 500_000: 0.88},
    "ref-sj-clu+": {100_000: 0.38, 300_000: 0.38, 500_000: 0.39},
}
DESCRIPTION_BYTES = {  # Table 4
    "ref-sj-sub": {100_000: 73.12, 300_000: 99.54, 500_000: 111.84},
    "ref-sj-tup": {100_000: 312.78, 300_000: 305.88, 500_000: 302.85},
    "ref-sj-clu": {100_000: 29.59, 300_000: 38.15, 500_000: 42.87},
    "ref-sj-clu+": {100_000: 16.88, 300_000: 21.96, 500_000: 24.68},
}
RELAXED_TRAFFIC = 9  # times as much as the best decomposition, for Rel-Sel in the multi-way mix
WORST_DECOMPOSITION = 1 / 0.8  # times as much as the best one
STAR_TIMES = {
    "rel-sel": 5,
    "ref-j": 9,
    "enum-j": 127,
}  # as much as Ref-SJ-Clu+, without a payload of facts

EVENTS_PER_SECOND = 20_000  # on a core, at 100K subscriptions: our goal
SLOWER_AT_A_MILLION = 2.0  # times, at most


def times(table: dict[str, dict[int, float]], scheme: str, subscriptions: int) -> float | None:
    """How many times as much a scheme has as Ref-SJ-Clu+ in a table; None if the table doesn't say.

    >>> round(times(STRESS_KB, "ref-j+", 100_000))
    35
    """
    mine, best = table.get(scheme, {}).get(subscriptions), table[OURS].get(subscriptions)
    return None if mine is None or best is None else mine / best
