"""The process that Spark forks its Python workers from, with what every worker of ours needs already imported.

Spark's own daemon imports nothing before it forks: a library may start threads, and a forked process has none of them.
So each worker imports pandas, PyArrow, Numba and this package by itself, for two seconds. Of these libraries two start
threads, OpenBLAS its pool and jemalloc one that purges, and both are made to be forked (`pthread_atfork`). Here all
that is done once, before the first fork.

A worker collects garbage after each task, and looks at every object that it has. What was imported here is never
garbage, and is left out (`gc.freeze`): that saves 70 ms of each task.
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
    """Do what Spark's daemon does, from a better start."""
    for name in _NEEDED:
        importlib.import_module(name)
    _prepare_numba()
    gc.collect()
    gc.freeze()
    manager()


def _prepare_numba() -> None:
    """What Numba else does in each process when it meets its first kernel, for half a second."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


if __name__ == "__main__":
    serve()
