"""How many tuples and bytes views have on documents: costs follow from that (delta §2.2).

Embeddings are found as for extraction, and counted instead of written. A document with too many embeddings of a view
counts as one without any, since the view gets nothing of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s
from penstock.views.documents.documents import Documents
from penstock.views.extraction.extraction import Extractor
from penstock.views.tree_pattern import TreePattern

_ID_BYTES = 8


class Volumes(NamedTuple):
    """Per view: tuples and bytes per document, on average."""

    tuples: Float64s
    size: Float64s


def volumes(views: Sequence[TreePattern], documents: Documents) -> Volumes:
    """The volumes of views on a batch of documents.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> volumes([parse_pattern("//b{val}")], read_xml(["<a><b>one</b><b>two</b></a>", "<a/>"]))
    Volumes(tuples=array([1.]), size=array([11.]))
    """
    tuples, size = np.zeros(len(views)), np.zeros(len(views))
    for part in Extractor(views).extractions(documents):
        for low, found in part.embeddings():
            some = slice(low, found.past)
            tuples[some] += np.diff(found.first_row)
            size[some] += _ID_BYTES * np.diff(found.first_cell) + found.texts
    return Volumes(tuples / max(1, len(documents)), size / max(1, len(documents)))
