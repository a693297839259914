"""Tickets: by its ticket, the maker of a subscription proves the right to renew or cancel it.

Follows operators §5.1, where the server answers `subscribe` with a ticket and asks for it again at `renew` and
`unsubscribe`. It departs from it in how a ticket is made: there it is an MD5 digest of the subscription and a random
number; here it is 256 random bits and nothing else, so that it reveals nothing and can't be guessed. The registry keeps
only its SHA-256, so nobody can cancel a subscription by reading the database. A slow password hash would add nothing,
since there is no dictionary of 256-bit random numbers.
"""

import hashlib
import hmac
import os
import re
import secrets

from penstock.base.errors import TicketError
from penstock.registry.records import Record

TICKET_BYTES = 32

# Stands for the hash of an unknown subscription's ticket: no ticket is known to hash to zero.
_NOBODY = bytes(32)


def new_ticket() -> str:
    """A fresh ticket: 256 random bits in 64 hexadecimal digits."""
    return secrets.token_hex(TICKET_BYTES)


def new_tickets(count: int) -> list[str]:
    """`count` fresh tickets, from one read of the random source: a million take about 0.3 seconds."""
    digits = os.urandom(TICKET_BYTES * count).hex()
    width = 2 * TICKET_BYTES
    return [digits[start : start + width] for start in range(0, width * count, width)]


def ticket_hash(ticket: str) -> bytes:
    """What the registry keeps of a ticket."""
    return hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).digest()


def ticket_fits(ticket: str, kept: bytes | None) -> bool:
    """Whether `kept` is the hash of `ticket`, in a time that doesn't depend on either.

    `None` stands for a subscription that doesn't exist or has no ticket: the same work is done, the answer is no.
    """
    same = hmac.compare_digest(ticket_hash(ticket), _NOBODY if kept is None else kept)
    return same and kept is not None


def check_new_ticket(ticket: str) -> str:
    """A ticket that somebody else has made: as long as ours, or an error."""
    if not re.fullmatch(rf"[0-9a-f]{{{2 * TICKET_BYTES}}}", ticket):
        raise TicketError(f"a ticket is {2 * TICKET_BYTES} hexadecimal digits in lower case")
    return ticket


def check_ticket(record: Record | None, sid: int, ticket: str) -> Record:
    """The record found for an id, if this is its ticket. Whatever is wrong, the error and the time it takes are the
    same."""
    fits = ticket_fits(str(ticket), None if record is None else record.ticket)
    if record is None or not fits:
        raise TicketError(
            f"no live subscription {sid} has this ticket: check both; "
            "if its lease has ended, subscribe again"
        )
    return record
