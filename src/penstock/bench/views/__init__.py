"""Benchmarks of views: section 5 of the Delta paper, its figures beside ours.

schema         XMark's auction site: what elements hold, and which values leaves have
documents      documents of it
drawing        views over it
published      what the paper found
"""
