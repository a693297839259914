"""The process from which Spark forks its Python workers, with everything imported that our workers need.

Spark's own daemon imports nothing before it forks: a library may start threads, and a forked process has none of them.
So each worker imports pandas, PyArrow, Numba and this package by itself, which takes two seconds. Of these libraries
only two start threads, OpenBLAS its pool and jemalloc one that purges, and both can be forked (`pthread_atfork`). Here
everything is imported once, before the first fork.

A worker collects garbage after each task, and looks at every object that it has. Objects that were imported here are
never garbage, and are left out (`gc.freeze`): that saves 70 ms of each task.
"""

import gc
import importlib

from pyspark.daemon import manager

_NEEDED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.worker",
    "penstock.pipeline.frames",
    "penstock.pipeline.joins.stage_work",
    "penstock.pipeline.views.match",
)


def serve() -> None:
    """Import what workers need, then do what Spark's daemon does."""
    for name in _NEEDED:
        importlib.import_module(name)
    _prepare_numba()
    gc.collect()
    gc.freeze()
    manager()


def _prepare_numba() -> None:
    """Do what Numba would do in each process before its first kernel, which takes half a second."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


if __name__ == "__main__":
    serve()
