"""Plain conjunctions in columns: filters put together from atoms, without an object for any of them.

    conjunction i   of the filter rows[i]: terms start[i] .. start[i + 1], those of one attribute together, tests last
    term t          terms[term[t]], with pieces piece_start[t] .. piece_start[t + 1]
    piece p         columns[piece[p]]: the literal at position[p] of its pool

`terms` and `columns` are the distinct ones, a few dozen as a rule; `columns` are those of all the terms, end to end.
Where a filter has a list of literals (`IN`), its pieces share a column.

The alternative is a shape for every combination of atoms. Where people pick their own attributes, there would be about
as many shapes as filters, and each would cost a parse and a handful of objects.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools, Bytes, Int32s, Int64s, offsets
from penstock.language.atoms import Atom, Atoms
from penstock.language.calls import Path
from penstock.language.filter_tree import Factor
from penstock.language.layout import agree, gather, lay_out, pool_places
from penstock.language.normal import Term
from penstock.language.pools import Column, Pool, PoolKey
from penstock.language.schema import Attribute
from penstock.language.skeletons import Skeletons
from penstock.language.texts import Texts
from penstock.language.types import Type

_CHUNK = 1 << 18  # bytes of filters taken at a time: with their tokens, about what a cache holds
Progress = Callable[[int], None]
"""Is called with the number of filters read since the last call."""


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """The arrays drawn above."""

    rows: Int64s
    start: Int64s
    term: Int32s
    piece_start: Int64s
    piece: Int32s
    position: Int64s
    terms: tuple[Term, ...]
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def none() -> "Conjunctions":
        """No conjunctions."""
        empty, start = np.empty(0, np.int64), np.zeros(1, np.int64)
        numbers = empty.astype(np.int32)
        return Conjunctions(empty, start, numbers, start, numbers, empty, (), ())

    def rows_of(self, key: PoolKey, positions: Sequence[int]) -> list[int]:
        """The filters that gave a pool the literals at these positions."""
        pooled = np.array([column.pool == key for column in self.columns], np.bool_)
        piece = np.flatnonzero(pooled[self.piece] & np.isin(self.position, positions))
        piece = piece[np.argsort(self.position[piece], kind="stable")]
        term = np.searchsorted(self.piece_start, piece, "right") - 1
        found: list[int] = self.rows[np.searchsorted(self.start, term, "right") - 1].tolist()
        return found


def plain_conjunctions(
    texts: Texts, atoms: Atoms, pools: dict[PoolKey, Pool], progress: Progress | None = None
) -> Conjunctions:
    """The filters that are plain conjunctions. Their literals go to `pools`, which must be empty."""
    parts = _Parts(atoms)
    row = shift = 0
    for chunk in texts.chunks(_CHUNK):
        parts.add(atoms.skeletons(chunk), row, shift)
        row += len(chunk)
        shift += len(chunk.data)
        if progress is not None:
            progress(len(chunk))
    if not any(map(len, parts.rows)):
        return Conjunctions.none()
    return parts.conjunctions(texts.data[texts.offsets[0] :], pools)


class _Parts:
    """Collects the parts of plain conjunctions, chunk by chunk: the atom of each, and where its literals stand."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.number: dict[bytes, int] = {}  # by skeleton, that of its atom; negative if it has none
        self.distinct: list[Atom] = []
        self.uses = _Uses()
        self.rows: list[Int64s] = []
        self.parts: list[Int64s] = []  # how many, per conjunction
        self.atom: list[Int32s] = []  # per part
        self.literals: list[Int64s] = []  # how many, per part
        self.kind: list[Bytes] = []  # per literal
        self.begin: list[Int64s] = []
        self.end: list[Int64s] = []

    def add(self, found: Skeletons, row: int, shift: int) -> None:
        """Add those filters of a chunk of which every part is an atom. It begins with filter `row`, at byte `shift`."""
        names = Texts(found.data, found.offset).array().dictionary_encode()
        numbers = np.array([self._number(n) for n in names.dictionary.to_pylist()], np.int32)
        atom: Int32s = numbers[names.indices.to_numpy()]
        parts, literals = np.diff(found.part_start), np.diff(found.literal_start)
        strange = offsets(atom < 0)[found.part_start]
        plain: Bools = found.cut & (strange[1:] == strange[:-1])
        if self.atoms.schema is None:
            plain &= agree(found.part_start, atom, *self.uses.arrays())
        of_plain = np.repeat(plain, parts)
        lifted = np.repeat(of_plain, literals)
        self.rows.append(row + np.flatnonzero(plain))
        self.parts.append(parts[plain])
        self.atom.append(atom[of_plain])
        self.literals.append(literals[of_plain])
        self.kind.append(found.kind[lifted])
        self.begin.append(found.begin[lifted].astype(np.int64) + shift)
        self.end.append(found.end[lifted].astype(np.int64) + shift)

    def _number(self, skeleton: bytes) -> int:
        number = self.number.get(skeleton)
        if number is None:
            atom = self.atoms.find(skeleton)
            number = -1 if atom is None else len(self.distinct)
            self.number[skeleton] = number
            if atom is not None:
                self.distinct.append(atom)
                self.uses.add(atom.attributes())
        return number

    def conjunctions(self, data: Bytes, pools: dict[PoolKey, Pool]) -> Conjunctions:
        """All plain conjunctions; their literals go to `pools`. `data` are the texts that all chunks were cut from."""
        atom = np.concatenate(self.atom)
        used = np.bincount(atom, minlength=len(self.distinct)) > 0
        atom = (np.cumsum(used) - 1).astype(np.int32)[atom]
        distinct = [one for one, is_used in zip(self.distinct, used, strict=True) if is_used]
        terms = tuple(term for one in distinct for term in one.terms)
        of_terms = [columns for one in distinct for columns in one.columns]
        columns = tuple(itertools.chain.from_iterable(of_terms))
        keys = list(dict.fromkeys(column.pool for column in columns))
        literal_start = offsets(np.concatenate(self.literals))
        repeats, slot_start, slot_pool = _slots(distinct, keys)
        pool, position, sizes = pool_places(
            atom, literal_start, repeats, slot_start, slot_pool, len(keys)
        )
        first = offsets(sizes)
        lifted = gather(
            data,
            np.concatenate(self.kind),
            np.concatenate(self.begin),
            np.concatenate(self.end),
            first[pool] + position,
        )
        literals = Texts(*lifted).array()
        for number, key in enumerate(keys):
            pools[key] = Pool(literals.slice(int(first[number]), int(sizes[number])))
        fixed = [pools[c.pool].keep(c.literal) if c.literal.slot is None else 0 for c in columns]
        return Conjunctions(
            np.concatenate(self.rows),
            *lay_out(
                offsets(np.concatenate(self.parts)),
                atom,
                literal_start,
                position,
                repeats,
                offsets([len(one.terms) for one in distinct]),
                _ranks(terms),
                offsets([len(own) for own in of_terms]),
                np.array(
                    [-1 if c.literal.slot is None else c.literal.slot for c in columns], np.int64
                ),
                np.array(fixed, np.int64),
            ),
            terms,
            columns,
        )


def _slots(atoms: Sequence[Atom], keys: Sequence[PoolKey]) -> tuple[Bools, Int64s, Int64s]:
    """Which atoms repeat their literal; where the literals of each begin; the literals' pools in the text's order."""
    number = {key: n for n, key in enumerate(keys)}
    lifted = [
        sorted(
            (c.literal.slot, number[c.pool])
            for own in atom.columns
            for c in own
            if c.literal.slot is not None
        )
        for atom in atoms
    ]
    # Every literal of an atom is the literal of one column: the parser sees to that.
    return (
        np.array([atom.repeats for atom in atoms], np.bool_),
        offsets([len(own) for own in lifted]),
        np.array([pool for own in lifted for _, pool in own], np.int64),
    )


def _ranks(terms: Sequence[Term]) -> Int64s:
    """The rank of each term: factors by the path of their attribute, then tests."""
    paths = sorted({term.attribute.path for term in terms if isinstance(term, Factor)})
    rank = {path: number for number, path in enumerate(paths)}
    return np.array(
        [rank[term.attribute.path] if isinstance(term, Factor) else len(rank) for term in terms],
        np.int64,
    )


class _Uses:
    """The attributes of each atom and their types, as numbers. A negative type: the path is a struct in other atoms."""

    def __init__(self) -> None:
        self.start = [0]
        self.path: list[int] = []
        self.type: list[int] = []
        self.paths: dict[Path, int] = {}
        self.types: dict[Type, int] = {}
        self.structs: set[Path] = set()

    def add(self, attributes: Iterable[Attribute]) -> None:
        """Add the attributes of the next atom."""
        for attribute in attributes:
            path = attribute.path
            self.path.append(self.paths.setdefault(path, len(self.paths)))
            self.type.append(self.types.setdefault(attribute.type, len(self.types)))
            self.structs.update(path[:depth] for depth in range(1, len(path)))
        self.start.append(len(self.path))

    def arrays(self) -> tuple[Int64s, Int64s, Int64s]:
        """Where the attributes of each atom begin, their paths and their types."""
        structs = [self.paths[path] for path in self.structs if path in self.paths]
        path = np.array(self.path, np.int64)
        type_ = np.where(np.isin(path, structs), -1, np.array(self.type, np.int64))
        return np.array(self.start, np.int64), path, type_
