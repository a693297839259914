"""Documents, XML and JSON, as flat arrays: a batch of them in one piece.

- `documents`: the arrays, and what is kept of a node;
- `xml_documents`, `xml_scan`, `xml_text`: reading XML;
- `json_documents`, `json_scan`: reading JSON;
- `label_table`: names as numbers, while documents are read.
"""
