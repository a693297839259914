"""How many changes something takes before it is worth making the whole of it anew."""

LEAST = 10_000
_SHARE = 10


def many_changes(size: int) -> int:
    """How many changes of something of this size are many: a tenth, or ten thousand if that is more.

    >>> many_changes(100), many_changes(1_000_000)
    (10000, 100000)
    """
    return max(LEAST, size // _SHARE)
