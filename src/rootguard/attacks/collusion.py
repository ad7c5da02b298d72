"""Collusion: several services, on several days, pool what they were told.

Each service asks for the root and for a function of its own each day, so that to a stateless guard
no question is a repeat within a service's day. Fresh answers are independent: the pool holds as
many factors as there were questions. A vault answers all services on all days from one draw, and
the pool holds that one.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice

from rootguard.attacks.derived import search, textbook
from rootguard.attacks.oracle import Oracle, Question, Transcript, direct
from rootguard.attacks.posterior import believe
from rootguard.mechanisms.base import Floats
from rootguard.values import RootName

SERVICES = 3
"""How many services collude unless told otherwise."""


def pool(transcripts: Sequence[Transcript]) -> Transcript:
    """All that several services were told about the same people."""
    exchanges = chain.from_iterable(transcript.exchanges for transcript in transcripts)
    return Transcript(transcripts[0].oracle, list(exchanges))


def visits(oracle: Oracle, root: RootName, *, services: int = SERVICES) -> list[list[Question]]:
    """What each service asks on a day: the root itself, then a function that is its own."""
    described = oracle.terms.template.roots[root]
    own = [*textbook(described), *search(described, count=services)][:services]
    return [[direct(root, described.domain), question] for question in own]


def collude(
    transcript: Transcript, root: RootName, queries: int, *, services: int = SERVICES
) -> Iterator[Floats]:
    """The pool's estimate after each answer, day by day, service by service.

    Each service asks on its own; the transcript is the pool of what they were told.
    """
    plans = visits(transcript.oracle, root, services=services)
    day = [(number, question) for number, plan in enumerate(plans) for question in plan]
    told = [Transcript(transcript.oracle) for _ in plans]
    for service, question in islice(cycle(day), queries):
        transcript.add(told[service].ask(question))
        yield believe(transcript, root).median
