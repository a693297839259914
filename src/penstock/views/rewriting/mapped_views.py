"""A view set as a folder of arrays that workers map into memory: one copy per host, nothing pickled.

    folder/   patterns.*  implications.*  trie.*     in the form of `base.array_folders`

A Spark task is given the folder's name and a range of views; `embeddings_into` and `rewritings_of_range` do the rest.
"""

from pathlib import Path
from typing import Any

from penstock.base.array_folders import read_folder, write_folder
from penstock.base.errors import SnapshotError
from penstock.views.rewriting.flat_patterns import FlatPatterns, as_mapped
from penstock.views.rewriting.label_trie import LabelTrie, as_mapped_trie
from penstock.views.rewriting.predicate_table import Implications

_PATTERNS, _IMPLICATIONS, _TRIE = "patterns.", "implications.", "trie."


def write_views(folder: Path, flat: FlatPatterns, trie: LabelTrie) -> None:
    """Write a view set. A folder that is there already is left alone."""
    fields: dict[str, Any] = flat._asdict()
    known: Implications = fields.pop("implications")
    parts = ((_PATTERNS, fields), (_IMPLICATIONS, known._asdict()), (_TRIE, trie._asdict()))
    arrays = {prefix + name: array for prefix, part in parts for name, array in part.items()}
    write_folder(folder, {"views": flat.views}, arrays)


def map_views(folder: Path) -> tuple[FlatPatterns, LabelTrie]:
    """A view set that was written. `SnapshotError` if files are damaged or aren't a view set."""
    _, arrays = read_folder(folder)

    def part(prefix: str, names: tuple[str, ...]) -> list[Any]:
        try:
            return [arrays[prefix + name] for name in names]
        except KeyError as error:
            raise SnapshotError(
                f"{folder} has no array {error}: it isn't a view set; write it again"
            ) from None

    known = Implications(*part(_IMPLICATIONS, Implications._fields))
    flat = FlatPatterns._make([*part(_PATTERNS, FlatPatterns._fields[:-1]), known])
    return as_mapped(flat), as_mapped_trie(LabelTrie(*part(_TRIE, LabelTrie._fields)))
