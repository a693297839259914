"""The nodes of a batch of documents on which each state holds, as bit sets for all documents at once.

    label list    a:  node 0  7  9  30 …          nodes of one label, in document order, over all documents
    bit set       a:  1 0 1 1                     one bit per node of the list

    state         = nodes of the label & its test & its edges           one AND per 64 nodes
    child edge    : for every bit of the state below, the parent's bit
    desc. edge    : a merge of the label's list with the bits of the state below: is the next one within the node?

States stand behind those they need, so one run over them suffices. A state that holds nowhere takes no words, and
neither does a state that needs it. That is the bottom-up half of a twig join. The other half, from the outermost
nodes down, is `embeddings`. It can't run into a dead end, because below a node on which a state holds there is a match.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from penstock.base.array_kernels import copy_values, longest_list
from penstock.base.arrays import Bools, Bytes, Float64s, Int32s, Int64s, UInt64s
from penstock.base.jit import kernel
from penstock.views.array_room import with_room
from penstock.views.documents.documents import VALUE_END, VALUE_START
from penstock.views.extraction.pattern_states import ANY_LABEL, NO_TEST, States, Tests
from penstock.views.numerals import order_of_numerals
from penstock.views.tree_pattern import OPERATORS

NOWHERE = -1
_UNKNOWN = -2
_HOLDS = np.array([[order in operator for order in "<=>"] for operator in OPERATORS])
"""Operator and order (less, equal, greater) -> whether it holds: an operator's characters are the orders it allows."""


class LabelLists(NamedTuple):
    """The nodes of every label that is asked for."""

    first: Int64s
    """Label -> nodes[first[l]] .. nodes[first[l + 1]]."""
    nodes: Int32s
    label: Int32s
    """Node -> its label among those asked for, or -1."""
    rank: Int32s
    """Node -> its place in its label's list."""
    any_rank: Int32s
    """Node -> its place in the list of all elements, or -1."""


class DocumentNodes(NamedTuple):
    """The parts of `Documents` that decide where states hold."""

    parents: Int32s
    last: Int32s
    spans: Int64s
    values: Bytes
    numbers: Float64s
    """The values of the lists' nodes as numbers, where tests need them."""


class _Known(NamedTuple):
    """Where the bits of states, edges and tests begin: a place, `NOWHERE`, or `_UNKNOWN`. `held` is scratch."""

    state_at: Int64s
    edge_at: Int64s
    test_at: Int64s
    held: Int32s


class Holds(NamedTuple):
    """Where states hold: state s has its bits from words[at[s]] on, unless that is `NOWHERE`."""

    at: Int64s
    words: UInt64s
    compared: Int64s
    """Test -> how many comparisons with values it took."""


@kernel
def label_lists(asked: Int32s, is_element: Bools, labels: Int32s, count: int) -> LabelLists:
    """The lists, from the documents' labels. `asked` has the number of each label here, or -1; `is_element` says which
    are elements."""
    label = np.empty(len(labels), np.int32)
    rank = np.empty(len(labels), np.int32)
    any_rank = np.empty(len(labels), np.int32)
    first = np.zeros(count + 1, np.int64)
    elements = 0
    for node in range(len(labels)):
        own = asked[labels[node]]
        label[node] = own
        any_rank[node] = -1
        if is_element[labels[node]]:
            any_rank[node] = elements
            elements += 1
        if own >= 0:
            rank[node] = first[own + 1]
            first[own + 1] += 1
    first[ANY_LABEL + 1] = elements
    for own in range(count):
        first[own + 1] += first[own]
    nodes = np.empty(first[count], np.int32)
    for node in range(len(labels)):
        if label[node] >= 0:
            nodes[first[label[node]] + rank[node]] = node
        if any_rank[node] >= 0:
            nodes[first[ANY_LABEL] + any_rank[node]] = node
    return LabelLists(first, nodes, label, rank, any_rank)


# --- states ----------------------------------------------------------------------------------


@kernel
def where_states_hold(
    states: States, tests: Tests, lists: LabelLists, nodes: DocumentNodes
) -> Holds:
    """The bits of all states."""
    words = np.empty(1 << 12, np.uint64)
    used = 0
    state_at = np.empty(len(states.label), np.int64)
    edge_at = np.full(len(states.edge_label), _UNKNOWN, np.int64)
    test_at = np.full(len(tests.label), _UNKNOWN, np.int64)
    compared = np.zeros(len(tests.label), np.int64)
    known = _Known(state_at, edge_at, test_at, np.empty(longest_list(lists.first, 0), np.int32))
    for state in range(len(states.label)):
        label, test = states.label[state], states.test[state]
        count = lists.first[label + 1] - lists.first[label]
        size = (count + 63) >> 6
        first_edge, past_edge = states.first_edge[state], states.first_edge[state + 1]
        # Room for the state's own bits, and for those of its test and edges, which may turn up here first.
        words = with_room(words, used, size * (past_edge - first_edge + 2))
        somewhere = size > 0
        if somewhere and test != NO_TEST:
            if test_at[test] == _UNKNOWN:
                found, compared[test] = _test(words, used, tests, test, lists, nodes)
                test_at[test] = used if found else NOWHERE
                used += size if found else 0
            somewhere = test_at[test] != NOWHERE
        place = first_edge
        while somewhere and place < past_edge:
            edge = states.edges[place]
            if edge_at[edge] == _UNKNOWN:
                found = _edge(words, used, states, edge, lists, nodes, known)
                edge_at[edge] = used if found else NOWHERE
                used += size if found else 0
            somewhere = edge_at[edge] != NOWHERE
            place += 1
        state_at[state] = NOWHERE
        if somewhere:
            at = _and(words, used, count, states, state, known)
            state_at[state] = at
            used += size if at == used else 0
    return Holds(state_at, words[:used], compared)


@kernel
def _and(words: UInt64s, used: int, count: int, states: States, state: int, known: _Known) -> int:
    """Where a state's bits are, if its test and edges hold somewhere: at its only test or edge, at `used`, or
    `NOWHERE`."""
    test, edge_at, test_at = states.test[state], known.edge_at, known.test_at
    first_edge, past_edge = states.first_edge[state], states.first_edge[state + 1]
    if first_edge == past_edge:
        if test != NO_TEST:
            return int(test_at[test])
        _all(words, used, count)
        return used
    start = int(edge_at[states.edges[first_edge]])
    if past_edge - first_edge == 1 and test == NO_TEST:
        return start
    size = (count + 63) >> 6
    copy_values(words, used, words, start, size)
    if test != NO_TEST:
        for word in range(size):
            words[used + word] &= words[test_at[test] + word]
    for place in range(first_edge + 1, past_edge):
        start = int(edge_at[states.edges[place]])
        for word in range(size):
            words[used + word] &= words[start + word]
    return used if _any(words, used, size) else NOWHERE


@kernel
def _all(words: UInt64s, at: int, count: int) -> None:
    full = count >> 6
    words[at : at + full] = ~np.uint64(0)
    if count & 63:
        words[at + full] = (np.uint64(1) << np.uint64(count & 63)) - np.uint64(1)


@kernel
def _any(words: UInt64s, at: int, size: int) -> bool:
    word = at
    while word < at + size and not words[word]:
        word += 1
    return word < at + size


# --- edges -----------------------------------------------------------------------------------


@kernel
def _edge(
    words: UInt64s,
    at: int,
    states: States,
    edge: int,
    lists: LabelLists,
    nodes: DocumentNodes,
    known: _Known,
) -> bool:
    """Set the bits of the nodes of the edge's label that have its state below them. Returns whether there is one."""
    state_at, held = known.state_at, known.held
    below, label = states.edge_state[edge], states.edge_label[edge]
    if state_at[below] == NOWHERE:
        return False
    under = states.label[below]
    count = _held(words, state_at[below], lists.first, lists.nodes, under, held)
    size = (lists.first[label + 1] - lists.first[label] + 63) >> 6
    words[at : at + size] = 0
    if states.edge_descendant[edge]:
        _over_descendants(words, at, held[:count], lists, label, nodes.last)
    else:
        _over_children(words, at, held[:count], lists, label, nodes.parents)
    return _any(words, at, size)


@kernel
def _held(words: UInt64s, at: int, first: Int64s, nodes: Int32s, label: int, held: Int32s) -> int:
    """Write the nodes of a state's bits to `held`, in document order. Returns how many."""
    count = 0
    start = first[label]
    for word in range((first[label + 1] - start + 63) >> 6):
        bits = words[at + word]
        while bits:
            held[count] = nodes[start + (word << 6) + int(trailing_zeros(bits))]
            count += 1
            bits &= bits - np.uint64(1)
    return count


@kernel
def _over_children(
    words: UInt64s, at: int, held: Int32s, lists: LabelLists, label: int, parents: Int32s
) -> None:
    labels, ranks = lists.label, lists.any_rank if label == ANY_LABEL else lists.rank
    for node in held:
        above = parents[node]
        if above >= 0 and (label == ANY_LABEL or labels[above] == label):
            rank = ranks[above]
            if rank >= 0:
                words[at + (rank >> 6)] |= np.uint64(1) << np.uint64(rank & 63)


@kernel
def _over_descendants(
    words: UInt64s, at: int, held: Int32s, lists: LabelLists, label: int, last: Int32s
) -> None:
    start, past = lists.first[label], lists.first[label + 1]
    below = 0
    for place in range(start, past):
        node = lists.nodes[place]
        while below < len(held) and held[below] <= node:
            below += 1
        if below == len(held):
            return
        if held[below] <= last[node]:
            rank = place - start
            words[at + (rank >> 6)] |= np.uint64(1) << np.uint64(rank & 63)


# --- tests -----------------------------------------------------------------------------------


@kernel
def _test(
    words: UInt64s, at: int, tests: Tests, test: int, lists: LabelLists, nodes: DocumentNodes
) -> tuple[bool, int]:
    """Set the bits of the nodes on which a test holds. Returns whether there is one, and the number of comparisons."""
    spans, values, numbers = nodes.spans, nodes.values, nodes.numbers
    start, past = lists.first[tests.label[test]], lists.first[tests.label[test] + 1]
    words[at : at + ((past - start + 63) >> 6)] = 0
    found, compared = False, 0
    for place in range(start, past):
        node = lists.nodes[place]
        if spans[VALUE_START, node] < 0:
            continue
        held = True
        for comparison in range(tests.first[test], tests.first[test + 1]):
            compared += 1
            if tests.is_text[comparison]:
                order = _order_of_texts(
                    values,
                    spans[VALUE_START, node],
                    spans[VALUE_END, node],
                    tests.text,
                    tests.text_at[comparison],
                    tests.text_at[comparison + 1],
                    tests.operator[comparison] < 2,
                )
            else:
                number = numbers[place]
                if number != number:
                    held = False
                    break
                literal = tests.number[comparison]
                order = -1 if number < literal else 1 if number > literal else 0
                if order == 0:
                    order = order_of_numerals(
                        values,
                        spans[VALUE_START, node],
                        spans[VALUE_END, node],
                        tests.text,
                        tests.text_at[comparison],
                        tests.text_at[comparison + 1],
                    )
            if not _HOLDS[tests.operator[comparison], order + 1]:
                held = False
                break
        if held:
            found = True
            rank = place - start
            words[at + (rank >> 6)] |= np.uint64(1) << np.uint64(rank & 63)
    return found, compared


@kernel
def _order_of_texts(
    left: Bytes, at: int, past: int, right: Bytes, start: int, end: int, only_equal: bool
) -> int:
    if only_equal and past - at != end - start:
        return 1
    while at < past and start < end:
        if left[at] != right[start]:
            return -1 if left[at] < right[start] else 1
        at += 1
        start += 1
    return -1 if start < end else 1 if at < past else 0
