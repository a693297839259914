"""All that any subscription could match, as a small filter for a source: `penstock.interest`. Begin with `wanted`.

projection    the boxes of a plan, projected on some columns
few           fewer boxes that contain them: one column exactly, several by sweeping, packing and pairing
wording       boxes as SQL;  arrow_filters: as filters of Arrow and Parquet
"""
