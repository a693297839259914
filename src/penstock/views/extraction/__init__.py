"""The tuples of many patterns on many documents, found together.

- `extraction`: `Extractor`, patterns ready for documents;
- `pattern_states`, `pattern_holds`: equal parts of patterns once, and the document nodes where each holds;
- `embeddings`, `tuple_columns`: from there to tuples in Arrow;
- `volumes`: how many tuples and bytes there are, without making them.
"""
