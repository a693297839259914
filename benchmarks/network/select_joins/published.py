"""What sections 6.1 to 6.3 of the select-joins paper have in numbers of traffic; its figures are curves without any."""

from benchmarks.joins.published import OURS, RELAXED_TRAFFIC, SOURCE, STAR_TIMES, STRESS_KB, TITLES

__all__ = ["OURS", "RELAXED_TRAFFIC", "SOURCE", "STAR_TIMES", "STRESS_KB", "TITLES"]

STRAWMEN = ("enum-j", "rel-sel", "ref-j", "ref-j+")  # joins §2.3
LESS = 10.0  # times less traffic than any strawman: "at least an order of magnitude" (figures 6, 9, 10)
STAR_LESS = 10.0  # times less again with CN*: "another order of magnitude"
STAR_STRESS = {
    "ref-j+": 7.0,
    "ref-sj-clu+": 3.0,
}  # times less stress with a repository of 400 entries
