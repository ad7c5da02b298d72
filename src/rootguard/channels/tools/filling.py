"""A tool's arguments with released values in the place of whatever the agent had put there.

Every bound parameter gets what this person released, in the unit and the JSON type that the schema
asks for, with the decimals of its root, and within bounds: post-processing, which costs nothing. A
bound parameter that is left out is filled in only if the tool requires it. A refusal of the
person's policy is raised as it is, without the frames that hold the arguments.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Final

from rootguard.channels.tools.answers import Answer, ReleasedMeasure, answer, measures_of
from rootguard.channels.tools.evidence import known
from rootguard.channels.tools.fields import Path
from rootguard.channels.tools.understanding import Binding, Pins, ToolMap, understand
from rootguard.errors import UnknownNameError, shielded
from rootguard.language.units import Affine, conversion
from rootguard.reading.page import decimals_in, plain, rounded
from rootguard.values import RootName

if TYPE_CHECKING:
    from rootguard.session.person import Person

_DIGITS: Final = 12  # a conversion's rounding errors are in the last of sixteen


@shielded
def fill(tool_map: ToolMap, arguments: Mapping[str, object], person: "Person") -> dict[str, object]:
    """The arguments to send: a copy, with every bound parameter replaced or answered."""
    filled = {str(key): _copied(value) for key, value in arguments.items()}
    wanted = [b for b in tool_map.bindings if b.required or _there(filled, b.parameter)]
    asked = [a for a in tool_map.answers if a.required or _there(filled, a.parameter)]
    for binding in wanted:
        value = value_of(binding, person)
        _put(filled, binding.parameter, value, required=binding.required)
    for each in asked:
        _put(filled, each.parameter, answer_of(each, person), required=each.required)
    return filled


def answer_of(asked: Answer, person: "Person") -> object:
    """What a question about values is answered with: a function of released values alone."""
    return answer(asked, lambda measure: measured(measure, person))


def measured(measure: ReleasedMeasure, person: "Person") -> float:
    """A released value in a measure's unit, to be compared: with its digits."""
    return float(_digits(_released(measure, person), measure))


def shown(measure: ReleasedMeasure, person: "Person") -> float:
    """A released value in a measure's unit, to be sent: with the decimals that people give it."""
    return float(_as_people_write(_released(measure, person), measure, person))


def value_of(binding: Binding, person: "Person") -> object:
    """What a bound parameter is filled in with: a root with the decimals that people give it."""
    if not binding.formula and not isinstance(given := person.release(binding.name), float):
        if isinstance(given, str):
            return given
        if isinstance(given, date):
            return given.isoformat()
    released = _released(binding, person)
    if binding.ends is not None:  # the nearer of 0 and 1
        return binding.ends[1 if released >= 0.5 else 0]
    if binding.kind == "integer":  # rounded once, in `_written`
        return _written(_digits(released, binding), binding)
    return _written(_as_people_write(released, binding, person), binding)


def _released(asked: Binding | ReleasedMeasure, person: "Person") -> float:
    return person.derive(asked.formula) if asked.formula else person.number(asked.name)


def _affine(asked: Binding | ReleasedMeasure) -> Affine:
    """From a value's own unit into the one that is asked for."""
    if asked.unit is None or asked.unit == asked.own:
        return Affine(scale=1.0)
    found = conversion(asked.own, asked.unit, asked.substance)
    if found is None:
        raise UnknownNameError("unit", asked.unit, (asked.own,))
    return found


def _digits(released: float, asked: Binding | ReleasedMeasure) -> Decimal:
    return Decimal(f"{_affine(asked)(released):.{_DIGITS}g}")


def _as_people_write(
    released: float, asked: Binding | ReleasedMeasure, person: "Person"
) -> Decimal:
    """A root with its decimals. What is computed from roots has no usual ones and keeps its own."""
    root = None if asked.formula else person.roots.get(RootName(asked.name))
    if root is None:
        return _digits(released, asked)
    affine = _affine(asked)
    # Rounding may not leave the domain; a conversion may turn its ends round.
    lower, upper = sorted(
        (
            affine(min(root.domain.lower, released)),
            affine(max(root.domain.upper, released)),
        )
    )
    return rounded(affine(released), decimals_in(root.places, affine.scale), lower, upper)


def _written(number: Decimal, binding: Binding) -> object:
    """The number as the schema wants it: a multiple of its step, within its limits, of its type."""
    least = None if binding.lower is None else Decimal(repr(binding.lower))
    most = None if binding.upper is None else Decimal(repr(binding.upper))
    steps = [Decimal(repr(binding.step))] if binding.step is not None and binding.step > 0 else []
    steps += [Decimal(1)] if binding.kind == "integer" else []
    for step in steps:  # limits too: one that is no multiple itself is none that may be sent
        number = (number / step + Decimal("0.5")).to_integral_value(ROUND_FLOOR) * step
        least = None if least is None else (least / step).to_integral_value(ROUND_CEILING) * step
        most = None if most is None else (most / step).to_integral_value(ROUND_FLOOR) * step
    number = number if least is None else max(number, least)
    number = number if most is None else min(number, most)
    if binding.kind == "integer":
        return int(number)
    return plain(number) if binding.kind == "string" else float(number)


def _copied(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(entry) for entry in value]
    return value


def _there(node: object, path: Path) -> bool:
    """Whether the agent gave this parameter. Null gives nothing, so nothing takes its place."""
    return any(value is not None for value in _at(node, path))


def _at(node: object, path: Path) -> Iterator[object]:
    if not path:
        yield node
    elif path[0] == "*":
        for entry in node if isinstance(node, list) else ():
            yield from _at(entry, path[1:])
    elif isinstance(node, dict) and path[0] in node:
        yield from _at(node[path[0]], path[1:])


def _put(node: object, path: Path, value: object, *, required: bool) -> None:
    """Put a value at a path; what is around it is made only for a required one."""
    head, rest = path[0], path[1:]
    if head == "*":
        for place, entry in enumerate(node) if isinstance(node, list) else ():
            if rest:
                _put(entry, rest, value, required=required)
            elif isinstance(node, list):
                node[place] = value
    elif isinstance(node, dict):
        if rest:
            if required and rest[0] != "*" and not isinstance(node.get(head), dict):
                node[head] = {}
            _put(node.get(head), rest, value, required=required)
        elif required or node.get(head) is not None:
            node[head] = value


@dataclass(frozen=True, kw_only=True, slots=True)
class Implied:
    """A calculation that tools perform: what a plan for it rests on.

    `declared`: whether the profile lists the template. `missing`: roots that the profile lacks.
    """

    template: str
    tools: tuple[str, ...]
    roots: tuple[str, ...]
    declared: bool
    missing: tuple[str, ...]


def plan_implied(tool_maps: Sequence[ToolMap], person: "Person") -> tuple[Implied, ...]:
    """The calculations of the catalog that these tools perform, and the roots that they rest on."""
    tools: dict[str, list[str]] = {}
    for tool_map in tool_maps:
        if tool_map.formula is not None:
            tools.setdefault(tool_map.formula, []).append(tool_map.tool)
    declared = {template.name for template in person.templates}
    found = []
    for each in known(tuple(person.templates)):
        if each.template in tools:
            roots = tuple(sorted(each.roots))
            found.append(
                Implied(
                    template=each.template,
                    tools=tuple(tools[each.template]),
                    roots=roots,
                    declared=each.template in declared,
                    missing=tuple(root for root in roots if root not in person.roots),
                )
            )
    return tuple(found)


def inspect_tools(
    tools: Sequence[object], person: "Person", *, pins: Pins | None = None
) -> tuple[ToolMap, ...]:
    """How a server's tools are understood; each a mapping or an object of the MCP SDK."""
    listed = person.describe()["identifiers"]
    identifiers = [str(name) for name in listed] if isinstance(listed, list) else []
    found = []
    for tool in tools:
        schema = _part(tool, "inputSchema", "input_schema")
        found.append(
            understand(
                str(_part(tool, "name") or ""),
                str(_part(tool, "description") or ""),
                schema if isinstance(schema, Mapping) else {},
                person.roots,
                person.templates,
                pins=pins,
                identifiers=identifiers,
            )
        )
    return tuple(found)


def _part(tool: object, *names: str) -> object:
    for name in names:
        found = tool.get(name) if isinstance(tool, Mapping) else getattr(tool, name, None)
        if found is not None:
            return found
    return None


def described(tool_map: ToolMap) -> dict[str, object]:
    """A tool as it was understood, JSON-ready, for `rootguard mcp inspect`. Public."""
    return {
        "tool": tool_map.tool,
        "formula": tool_map.formula,
        "bound": [
            {
                "parameter": ".".join(binding.parameter),
                "value": binding.name,
                "unit": binding.unit or binding.own,
                "type": binding.kind,
                "confidence": binding.confidence,
                "why": binding.reason,
                **({"formula": binding.formula} if binding.formula else {}),
            }
            for binding in tool_map.bindings
        ],
        "asked": [
            {
                "parameter": ".".join(question.parameter),
                "candidates": list(question.candidates),
                "why": question.why,
            }
            for question in tool_map.asked
        ],
        "answered": [
            {
                "parameter": ".".join(each.parameter),
                "values": list(dict.fromkeys(m.name for m in measures_of(each))),
                "why": each.why,
            }
            for each in tool_map.answers
        ],
        "unbound": [".".join(path) for path in tool_map.unbound],
    }
