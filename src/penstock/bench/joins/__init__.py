"""Select-joins measured: what the paper's section 6 measures, and what a Spark user would do instead."""
