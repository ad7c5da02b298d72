"""Which calculation of the catalog a tool performs: by what it calls itself, and by its inputs.

Public knowledge on both sides. A tool that computes a known formula needs nothing that is not
already released (Level 1), and says which roots matter how much (Level 2).
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rootguard.channels.tools.words import key_of, text_words, words_of
from rootguard.expressions import Variable
from rootguard.graph import Graph
from rootguard.language import names
from rootguard.template import Template, catalog, load_template

_LONGEST: Final = 5
_ENOUGH: Final = 0.5
_TELLING: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A template's calculation: what it is called, which roots it takes, what stands for which."""

    template: str
    keys: frozenset[str]
    roots: frozenset[str]
    behind: dict[str, frozenset[str]]


def formula_of(
    tool_name: str,
    description: str,
    asked: Iterable[str],
    templates: Sequence[Template],
    *,
    nothing_else: bool,
) -> Known | None:
    """The one calculation that the tool's name, description and inputs agree on, if there is one.

    `asked` are the names of what its parameters may mean. A name is not enough without the inputs;
    the inputs are enough alone only if there are three or more, no other calculation has them and
    the tool takes `nothing_else`.
    """
    every = known(tuple(templates))
    named, said = _keys(words_of(tool_name)), _keys(text_words(description))
    inputs = frozenset(asked)
    ranked: list[tuple[float, Known]] = []
    for each in every:
        given = {root for name in inputs for root in each.behind.get(name, ())} & each.roots
        share = len(given) / len(each.roots)
        longest = max((len(k) for k in each.keys & (named | said)), default=0)
        if longest and share > _ENOUGH:
            bonus = 2.0 if each.keys & named else 1.0
            ranked.append((bonus + share, each))
    if ranked:
        best = max(score for score, _ in ranked)
        top = [each for score, each in ranked if score == best]
        return top[0] if len(top) == 1 else None
    exact = [each for each in every if each.roots == inputs & each.roots == inputs]
    telling = nothing_else and len(inputs) >= _TELLING
    return exact[0] if len(exact) == 1 and telling else None


@functools.lru_cache(maxsize=32)
def known(templates: tuple[Template, ...]) -> tuple[Known, ...]:
    """The person's calculations first, then the catalog's."""
    own = {template.name: template for template in templates}
    every = own | {name: load_template(name) for name in catalog() if name not in own}
    return tuple(_known(template) for template in every.values())


def _known(template: Template) -> Known:
    graph = Graph.of(template)
    texts = [*names.formulas().get(template.name, ())]
    if not texts:
        texts = [template.name, template.target.name, template.title.partition("(")[0]]
    return Known(
        template=template.name,
        keys=frozenset(key_of(text_words(text)) for text in texts if text.strip()),
        roots=frozenset(map(str, graph.rests_on(template.target.formula))),
        behind={
            node.name: frozenset(map(str, graph.rests_on(Variable(node.name))))
            for node in graph.order
            if node.name != template.target.name
        },
    )


def _keys(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        key_of(words[start : start + size])
        for size in range(1, _LONGEST + 1)
        for start in range(len(words) - size + 1)
    )
