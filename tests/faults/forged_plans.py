"""Plans whose arrays somebody changed, with the right checksums: opened and matched in a process that may crash.

python -m tests.faults.forged_plans <folder> <seed> <how many>
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.matching.test_snapshots import Source, forget
from tests.operators import sample_operators

from penstock.base.array_folders import read_folder, write_folder
from penstock.base.errors import PenstockError
from penstock.language.schema import Schema
from penstock.matching import SnapshotStore, open_matcher
from penstock.matching.engines import variants
from penstock.operators.define import Operators

EVENTS = pa.record_batch(
    {
        "a": pa.array([n % 9 if n % 7 else None for n in range(80)]),
        "s": [f"x{n % 5}" for n in range(80)],
        "t": pa.array([[f"x{n % 3}"] for n in range(80)], pa.list_(pa.string())),
    }
)
FILTERS = [
    "a > 1 AND s = 'x3'",
    "s LIKE '%3' OR a IN (1, 3, 7)",
    "a > 2 AND s LIKE '%x%2' AND array_contains(t, 'x2')",
    "array_contains(t, 'x1')",
    "a <> 2",
    "doubled(a) > 3 AND a > 1",
    "doubled(a) < 5 OR negated(a) IN (-1, -4)",
    *[f"s = 'x{n % 4}' AND a BETWEEN {n % 5} AND {n % 5 + n % 3}" for n in range(80)],
]


def forged(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Another array of the same type, mostly; or of another one."""
    found = array.copy()
    match rng.randrange(6):
        case 0:
            return found[: rng.randrange(len(found) + 1)]
        case 1:
            return np.concatenate([found, found])
        case 2:
            return found.astype(rng.choice([np.int8, np.int64, np.float64]))
        case _:
            if not len(found):
                return np.array([rng.choice([-1, 0, 5, 2**30])]).astype(found.dtype)
            at = rng.randrange(len(found))
            value = rng.choice([-(2**31), -2, -1, 0, 1, 3, len(found), 1000, 2**31 - 1])
            found[at] = np.array(value).astype(found.dtype)
            return found


def main(folder: Path, seed: str, count: int) -> None:
    rng = random.Random(seed)
    operators = Operators.of([sample_operators.doubled, sample_operators.negated])
    schema = Schema.of({"a": "int", "s": "string", "t": "array<string>"})
    schema = schema.with_operators(operators.signatures)
    source = Source()
    for sid, text in enumerate(FILTERS):
        source.put(sid, text)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        store = SnapshotStore(folder / str(number), rng.choice(["auto", *variants()]))
        ref = store.publish(source, schema).ref
        content = store._versions.read(ref.version)
        header, arrays = read_folder(store._plans / content["base"])
        name = rng.choice(sorted(arrays))
        arrays = {**arrays, name: forged(arrays[name], rng)}
        content["base"], content["base_checksum"] = "forged", 0
        content["base_checksum"] = write_folder(store._plans / "forged", header, arrays)
        store._versions.replace(ref.version, content)
        forget()
        try:
            matcher = open_matcher(ref, store.engine, operators=operators.signatures)
            matcher.match_pairs(EVENTS)
            matcher.match({"a": 3, "s": "x3"})
            outcomes["matched"] += 1
        except PenstockError:
            outcomes["refused"] += 1
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
