"""What anybody could want, as a small filter for a source: `penstock.interest`. Begin with `interest`.

projection    the boxes of a plan, on the columns that were asked for
few           at most so many boxes that hold them: one column exactly, several by sweeping, packing and pairing
wording       boxes in literals, as SQL;  arrow_filters: as filters of Arrow and Parquet
"""
