"""What only benchmarks compare with: ways of the papers that Penstock doesn't take itself.

covering     one shared diagram for matching, covering and merging, subscription by subscription (MBD paper)
operators    sub-order's chains in an order that is kept while chains come and go (operators paper)
joins        the other schemes of select-joins, and choosing semijoins by what they cost (select-joins paper)
"""
