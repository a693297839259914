"""The network: brokers that route by content, the links between them, and payloads that are sent once."""
