"""What section 5 of the Delta paper has, and our goals."""

SOURCE = "Katsifodimos, Manolescu, Vassalos: Delta, EDBT 2013, section 5"

INFINITE = "∞"

# Table 2
VIEWS = 100_000
PREDICATES, PREDICATES_PER_NODE, NODES, RETURNED = 0.72, 0.11, 6.13, 2.52
EDGES, EDGES_REMOVED, WITH_EMBEDDED, GRAPH_SECONDS = 10_592_053, 18_665, 0.9995, 452.0
REWRITINGS, REWRITING_EDGES, REWRITING_SECONDS = 2_692_139, 8_589_822, 127.0
REWRITTEN, VIEWS_PER_REWRITING, FEEDS = 94_835, 2.15, 57.9

# Section 5.3 and Table 3, by the capacity of a view
CAPACITIES = ("30", "50", "100", INFINITE)
SOURCE_FEEDS = 6_198
MARGIN = 1.2  # SOURCE_FEEDS is as many times the views that can't be rewritten
OFF_LOADED = {"30": 0.943, "50": 0.947, "100": 0.947, INFINITE: 0.947}
UTILISATION = {"30": 3.49, "50": 3.32, "100": 3.31, INFINITE: 3.13}  # × 10 ** 13
USED_PER_VIEW = {"30": 1.77, "50": 1.78, "100": 1.79, INFINITE: 1.8}
PROGRAM_SECONDS = {"30": 240.0, INFINITE: 120.0}

# Section 5.4
WIDER = 1.5  # LOGA's capacities by those of the program
LATENCY_SAVED = 0.43
LOGA_SECONDS = (150.0, 200.0)
MORE_UTILISATION = (0.05, 0.07)
MOST_LEVELS = 12
IN_SIX_LEVELS = 0.985

# Section 5.5
POPULAR_CAPACITIES = ("5", "10", "30", "50", "100", INFINITE)
POPULAR_SOURCE = 72
EXTRACTION_MS = 100.0  # of the 72 views that the source feeds, from one document
DELIVERY_MS = (2_000.0, 2_500.0)  # of a document to all views, over a network

# Section 5.6, and the goals on two cores against its eight
WHOLE_SECONDS = 780.0
GOAL_SECONDS, GOAL_GAP, GOAL_BYTES = 240.0, 0.01, 8 << 30
