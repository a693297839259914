"""Names of columns as Spark SQL takes them, whatever is in them."""


def quote_name(name: str) -> str:
    """A name in backticks.

    >>> quote_name("a`b.c")
    '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"
