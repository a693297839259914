"""The auction site of XMark, which sections 5.1 and 5.5 draw their views and documents from.

What elements hold, in a notation of our own:

    "item": "@id @featured location quantity name … incategory+ mailbox"     in this order; ? * + as usual
    "description": "text | parlist"                                          one of them
    "listitem": "(text | parlist)*"                                          any number, in any order
    "text": "#text (bold | keyword | emph)*"                                 words between them

Elements that aren't listed hold words only, `EMPTY` ones nothing but attributes. What words these are is ours: XMark
has Shakespeare's, here each leaf has a few values of its own, so that predicates have something to match.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

ROOT = "site"
THINGS = frozenset(("item", "category", "edge", "person", "open_auction", "closed_auction"))
"""What the site is about; all above them only holds them together."""

_REGIONS = ("africa", "asia", "australia", "europe", "namerica", "samerica")
_MARKUP = ("bold", "keyword", "emph")

_CONTENT = {
    "site": "regions categories catgraph people open_auctions closed_auctions",
    "regions": " ".join(_REGIONS),
    **dict.fromkeys(_REGIONS, "item*"),
    "item": "@id @featured location quantity name payment description shipping incategory+ mailbox",
    "mailbox": "mail*",
    "mail": "from to date text",
    "categories": "category+",
    "category": "@id name description",
    "catgraph": "edge*",
    "people": "person*",
    "person": "@id name emailaddress phone? address? homepage? creditcard? profile? watches?",
    "address": "street city country province? zipcode",
    "profile": "@income interest* education? gender? business age?",
    "watches": "watch*",
    "open_auctions": "open_auction*",
    "open_auction": "@id initial reserve? bidder* current privacy? itemref seller annotation quantity type interval",
    "bidder": "date time personref increase",
    "interval": "start end",
    "closed_auctions": "closed_auction*",
    "closed_auction": "seller buyer itemref price date quantity type annotation?",
    "annotation": "author description? happiness",
    "description": "text | parlist",
    "parlist": "listitem*",
    "listitem": "(text | parlist)*",
    **dict.fromkeys(("text", *_MARKUP), f"#text ({' | '.join(_MARKUP)})*"),
    "edge": "EMPTY @from @to",
    "incategory": "EMPTY @category",
    "interest": "EMPTY @category",
    "watch": "EMPTY @open_auction",
    "personref": "EMPTY @person",
    "itemref": "EMPTY @item",
    "seller": "EMPTY @person",
    "buyer": "EMPTY @person",
    "author": "EMPTY @person",
}

_PLACES = ("United States", "Ghana", "Japan", "France", "Brazil")
_PEOPLE = ("Ada Fox", "Ben Hill", "Cleo Marsh", "Dan Stone")
_DATES = ("07/05/2026", "11/16/2026", "02/28/2027", "09/01/2027")
_IDS = 4  # of each kind, that references and predicates know: person0 .. person3

VALUES: Mapping[str, tuple[str, ...]] = {
    "location": _PLACES,
    "country": _PLACES,
    "quantity": ("1", "2", "3", "5"),
    "name": ("brass lamp", "oak chair", "silk scarf", "river stone"),
    "payment": ("Creditcard", "Cash", "Money order", "Personal Check"),
    "shipping": ("Will ship only within country", "Will ship internationally", "Buyer pays"),
    "from": _PEOPLE,
    "to": _PEOPLE,
    "date": _DATES,
    "start": _DATES,
    "end": _DATES,
    "time": ("08:15:00", "12:30:10", "18:45:59"),
    "emailaddress": ("mailto:ada@example.org", "mailto:ben@example.org", "mailto:cleo@example.org"),
    "phone": ("+33 1 5550100", "+44 20 5550111", "+81 3 5550122"),
    "homepage": ("http://www.example.org/~ada", "http://www.example.org/~ben"),
    "creditcard": ("9941 9701 2489 4716", "5213 3314 6019 1234"),
    "street": ("12 Mill Lane", "7 Harbour Road", "31 Chestnut St"),
    "city": ("Accra", "Kyoto", "Lyon", "Recife"),
    "province": ("Vermont", "Ohio", "Utah"),
    "zipcode": ("10", "21", "32"),
    "education": ("Graduate School", "College", "High School", "Other"),
    "gender": ("female", "male"),
    "business": ("Yes", "No"),
    "age": ("18", "27", "36", "45"),
    "initial": ("12.50", "45.00", "99.90"),
    "reserve": ("20.00", "60.00", "150.00"),
    "current": ("18.00", "72.50", "210.00"),
    "increase": ("1.50", "3.00", "7.50", "15.00"),
    "privacy": ("Yes", "No"),
    "type": ("Regular", "Featured", "Dutch"),
    "price": ("15.00", "40.00", "88.00", "130.00"),
    "happiness": ("1", "4", "7", "10"),
    "@featured": ("yes",),
    "@income": ("9876.00", "31250.50", "54321.00"),
}
"""What leaves hold, the likeliest first. IDs and references aren't here: see `values_of`."""

WORDS = (
    "harbour", "lantern", "meadow", "copper", "winter", "orchard", "granite", "velvet",
    "saffron", "willow", "ember", "thistle", "cobalt", "quarry", "maple", "drift",
)  # fmt: skip
"""Of these are texts."""

_REFERRED = {
    "@category": "category",
    "@open_auction": "open_auction",
    "@person": "person",
    "@item": "item",
}
_ENDS = {"@from": "category", "@to": "category"}


class Kind(Enum):
    """How an element's content goes."""

    SEQUENCE = "in this order"
    ONE = "one of them"
    ANY = "any number of them"
    MIXED = "any number of them, between words"
    WORDS = "words"
    EMPTY = "nothing"


@dataclass(frozen=True, slots=True)
class Child:
    """A child, and how often it comes; `most` None: as often as one likes."""

    name: str
    least: int = 1
    most: int | None = 1


@dataclass(frozen=True, slots=True)
class Element:
    """What elements of one name hold."""

    name: str
    kind: Kind
    children: tuple[Child, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All that may lie directly below: attributes with their `@`, then children."""
        return (*self.attributes, *(child.name for child in self.children))


_OCCURS = {"?": (0, 1), "*": (0, None), "+": (1, None)}


@cache
def element(name: str) -> Element:
    """What elements of this name hold.

    >>> element("profile").attributes, element("profile").children[1]
    (('@income',), Child(name='education', least=0, most=1))
    >>> element("description").kind, element("city").kind
    (<Kind.ONE: 'one of them'>, <Kind.WORDS: 'words'>)
    """
    said = _CONTENT.get(name, "#text")
    tokens = said.translate(str.maketrans("", "", "()|")).split()
    attributes = tuple(t for t in tokens if t.startswith("@"))
    names = [t for t in tokens if t[0] not in "@#" and t != "EMPTY"]
    kind = _kind(said)
    occurs = [_OCCURS.get(n[-1], (1, 1)) if kind is Kind.SEQUENCE else (0, None) for n in names]
    children = [Child(n.rstrip("?*+"), *o) for n, o in zip(names, occurs, strict=True)]
    return Element(name, kind, tuple(children), attributes)


def _kind(said: str) -> Kind:
    if said.startswith("EMPTY"):
        return Kind.EMPTY
    if said.startswith("#text"):
        return Kind.MIXED if "|" in said else Kind.WORDS
    if "|" in said:
        return Kind.ANY if said.endswith("*") else Kind.ONE
    return Kind.SEQUENCE


@cache
def is_leaf(label: str) -> bool:
    """Whether this is an attribute, or an element of words only: what predicates are about."""
    return label.startswith("@") or element(label).kind is Kind.WORDS


@cache
def values_of(label: str, parent: str) -> tuple[str, ...]:
    """What a leaf holds below an element of this name, the likeliest first; for an ID, those that others refer to.

    >>> values_of("@person", "seller")
    ('person0', 'person1', 'person2', 'person3')
    """
    if label in VALUES:
        return VALUES[label]
    kind = parent if label == "@id" else _REFERRED.get(label) or _ENDS[label]
    return tuple(f"{kind}{number}" for number in range(_IDS))


@cache
def below(name: str) -> frozenset[str]:
    """All labels that may lie below an element, at any depth.

    >>> "keyword" in below("annotation"), "site" in below("site")
    (True, False)
    """
    found: set[str] = set()
    left = [name]
    while left:
        for label in () if (top := left.pop()).startswith("@") else element(top).labels:
            if label not in found:
                found.add(label)
                left.append(label)
    return frozenset(found)


@cache
def is_frame(label: str) -> bool:
    """Whether this only holds things together.

    >>> is_frame("europe"), is_frame("person")
    (True, False)
    """
    return not label.startswith("@") and not THINGS.isdisjoint(below(label))
