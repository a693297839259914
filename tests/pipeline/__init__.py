"""Penstock on Spark: batch and streaming, classic and Connect, crashes and bad input."""
