"""Names of columns, quoted so that Spark SQL takes them whatever characters they have."""


def quote_name(name: str) -> str:
    """A name in backticks.

    >>> quote_name("a`b.c")
    '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def quote_path(path: str) -> str:
    """A column, or a field reached by dots, as `DataFrame.col` takes it. A path with backticks is quoted already.

    >>> quote_path("a-b.c"), quote_path("`a.b`")
    ('`a-b`.`c`', '`a.b`')
    """
    return path if "`" in path else ".".join(quote_name(part) for part in path.split("."))
