"""The whole pipeline: what is published goes in as files, notifications come out as files."""
