"""The two sides that can match what is published: Spark in a child process, and a live matcher in a thread.

matching_state      what both tell of themselves
spark_side          Spark's side in the service, and its child process (`supervising`)
spark_child         that process: it runs the pipelines of `published_pipelines`
live_side           the live matcher
changing_over       from one side to the other, at a restart
published_segments  segments that Spark has read, and that can go (`read_segments`);  `kafka_topics`: topics as the log
"""
