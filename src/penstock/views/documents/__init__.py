"""Documents, XML and JSON, as flat arrays: a batch of them in one piece.

- `documents`: the arrays, and what is kept of a node;  `contents`: a node's content, as `cont` returns it;
- `document_bytes`: their bytes in UTF-8, whatever they were encoded in;
- `xml_documents`, `xml_scan`, `xml_text`, `xml_namespaces`: reading XML;
- `json_documents`, `json_scan`: reading JSON;
- `label_table`: names as numbers, while documents are read.
"""
