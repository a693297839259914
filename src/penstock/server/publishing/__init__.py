"""What is published: read, checked, on disk before it is acknowledged, and taken onwards in order.

published         what is published, the receipt, and why something isn't taken
request_bodies    the records of a request: JSON, lines, CloudEvents (`cloud_events`)
record_shapes     checks records of one schema, and writes them anew;  record_problems: why one is refused
attribute_types   types of attributes, and how Spark is told of them
learning_types    a schema that grows with what is published
inbox             requests into one transaction, many at once;  inbox_tables: on disk;  producer_states: repeats
moving            rows out of the inbox to a mover
sealed_segments   a mover: files that Spark reads
"""
