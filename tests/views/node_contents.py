"""What `cont` of a single node is: kernels write those of whole columns."""

import numpy as np

from penstock.views.documents.contents import (
    MOST_DECLARATIONS,
    contents,
    text_sizes,
    write_content,
)
from penstock.views.documents.documents import Documents


def cont(documents: Documents, node: int) -> str:
    """A node's subtree, serialised."""
    found = np.empty(text_sizes(documents)[node, 1], np.uint8)
    write_content(contents(documents), node, found, 0, -1, np.empty(MOST_DECLARATIONS, np.int64))
    return found.tobytes().decode()
