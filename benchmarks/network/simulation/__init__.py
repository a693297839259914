"""Brokers without machines: over perfect links (`quiet_network`), or over bad ones, from a seed (`bad_network`)."""
