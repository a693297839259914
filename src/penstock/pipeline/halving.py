"""Work on many records, of which only those that make it fail are refused.

A batch is tried whole, so there is no cost if nothing is wrong. If that fails its halves are tried, down to the record
to blame: about 2 log2 n tries for one among n.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

Result = TypeVar("Result")


def work_in_halves(
    batch: pa.RecordBatch,
    work: Callable[[pa.RecordBatch], Result],
    refuse: Callable[[pa.RecordBatch, str], Result],
    job_errors: tuple[type[Exception], ...] = (),
) -> Iterator[tuple[pa.RecordBatch, Result]]:
    """The parts of a batch, in order, with their results: the whole batch if nothing fails. A bad record is refused.

    `job_errors` are errors of the job, not of a record. They are raised.

    >>> def inverse(batch):
    ...     return [1 / n for n in batch.column("n").to_pylist()]
    >>> found = work_in_halves(pa.record_batch({"n": [1, 2, 0, 4]}), inverse, lambda one, why: why)
    >>> [result for _, result in found]
    [[1.0, 0.5], 'ZeroDivisionError: division by zero', [0.25]]
    """
    return parts_in_halves(batch, lambda part: [(part, work(part))], refuse, job_errors)


def parts_in_halves(
    batch: pa.RecordBatch,
    work: Callable[[pa.RecordBatch], Iterable[tuple[pa.RecordBatch, Result]]],
    refuse: Callable[[pa.RecordBatch, str], Result],
    job_errors: tuple[type[Exception], ...] = (),
) -> Iterator[tuple[pa.RecordBatch, Result]]:
    """The same for work that itself yields parts, in the order of the records. Parts that came aren't done again."""
    done = 0
    try:
        for part, found in work(batch):
            yield part, found
            done += part.num_rows
        return
    except job_errors:
        raise
    except Exception as error:
        rest = batch.slice(done)
        if not rest.num_rows:
            raise
        if rest.num_rows == 1:
            yield rest, refuse(rest, f"{type(error).__name__}: {error}".strip(": \n"))
            return
    half = rest.num_rows // 2
    yield from parts_in_halves(rest.slice(0, half), work, refuse, job_errors)
    yield from parts_in_halves(rest.slice(half), work, refuse, job_errors)
