"""CN*: bulky attributes of events that cross each link once (joins §5, §G, §H)."""
