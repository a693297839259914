"""Select-joins over a network of brokers. These know nothing of joins: they see events, filters and advertisements.

table_events       the events that a publisher of tables and the followers of selects exchange
published_tables   the publisher: changes of tables and asks in, events out;  table_publisher: runs it at a broker
followed_select    a follower: events in, a `JoinView` and asks out;  select_follower: runs it at a broker
"""
