"""`rootguard templates`: what is in the catalog, and what a template says."""

from typing import TYPE_CHECKING

import click

from rootguard.cli.options import TemplateType, json_option
from rootguard.cli.output import EXIT_CODES, console, number, table, write_json

if TYPE_CHECKING:
    from rootguard.template import KeptFormula, RiskClass, Root, Template

_UNMARKED = (
    "no risk class is marked worrying, so a calibrated release keeps no alarm; "
    "add worrying = true to the classes whose people must not be missed"
)


@click.command("templates", epilog=EXIT_CODES)
@click.argument("template", type=TemplateType(), metavar="[TEMPLATE]", required=False)
@json_option
def command(template: str | None, *, as_json: bool) -> None:
    """List the catalog, or show one template (or a TOML file of your own, checking it).

    \b
    Examples:
      rootguard templates
      rootguard templates fib4
      rootguard templates ./my-template.toml --json
    """
    from rootguard.template import load_template

    if template is None:
        _list(as_json=as_json)
    else:
        _show(load_template(template), as_json=as_json)


def _list(*, as_json: bool) -> None:
    from rootguard.template import catalog, load_template

    loaded = [load_template(name) for name in catalog()]
    if as_json:
        write_json([_summary(template) for template in loaded])
        return
    rows = [
        (t.name, t.field, t.title, ", ".join(root.label for root in t.roots.values()))
        for t in loaded
    ]
    out = console()
    out.print(table(None, ("name", "field", "title", "computed from"), rows))
    out.print("The formula, units and sources of one: rootguard templates fib4")


def _summary(template: "Template") -> dict[str, object]:
    from rootguard.expressions import to_text

    return {
        "name": template.name,
        "field": template.field,
        "title": template.title,
        "roots": list(template.roots),
        "target": {
            "name": template.target.name,
            "formula": to_text(template.target.formula),
            "unit": template.target.unit,
        },
    }


def _show(template: "Template", *, as_json: bool) -> None:
    from rootguard.expressions import to_text
    from rootguard.graph import Graph, recognise

    hints = [str(hint) for hint in recognise(template)]
    if template.risk and not any(risk.worrying for risk in template.risk):
        hints.append(_UNMARKED)
    computed = [node for node in Graph.of(template).order if node.formula is not None]
    if as_json:
        roots = {
            root.name: {
                "title": root.label,
                "type": root.type.name,
                "values": list(root.type.answers),
                "public": root.public,
                "hide": root.hide,
                "hide_because": root.hide_because,
                "lower": root.domain.lower,
                "upper": root.domain.upper,
                "grid": root.domain.size,
                "unit": root.unit,
                "decimals": root.places,
                "aliases": list(root.aliases),
                "mean": root.mean,
                "sd": root.sd,
                "median": root.median,
                "log_sd": root.log_sd,
                "shape": root.shape,
                "formula": None if root.formula is None else to_text(root.formula),
                "kept": None if root.kept is None else _kept(root.kept),
            }
            for root in template.roots.values()
        }
        body = {
            **_summary(template),
            "description": template.description,
            "roots": roots,
            "computed": {n.name: to_text(n.formula) for n in computed if n.formula},
            "risk": [
                {"label": risk.label, "when": _when(risk), "worrying": risk.worrying}
                for risk in template.risk
            ],
            "populations": list(template.population_names),
            "forms": [f"{template.name}@{form.name}" for form in template.forms or ()],
            "sources": list(template.sources),
            "hints": hints,
            "digest": template.digest,
        }
        write_json(body)
        return
    out = console()
    out.print(f"[bold]{template.name}[/]: {template.title}")
    if template.description:
        out.print(template.description)
    rows = [
        (
            f"{root.label} ({root.name})",
            _kind(root),
            root.unit,
            *_bounds(root),
            "" if root.mean is None else number(root.mean),
            ", ".join(root.aliases),
        )
        for root in template.roots.values()
    ]
    columns = ("value", "type", "unit", ">lower", ">upper", ">mean", "aliases")
    out.print(table("roots", columns, rows))
    for root in template.roots.values():
        if root.hide is not None:
            far = f"{number(root.hide)} {root.unit}".strip()
            why = f": {root.hide_because}" if root.hide_because else ""
            out.print(f"  {root.label} is hidden within {far}{why}", markup=False)
    out.print(
        table(
            "computed from them",
            ("name", "kind", "formula", "unit"),
            [(n.name, n.kind, to_text(n.formula), n.unit) for n in computed if n.formula],
        )
    )
    for root in template.roots.values():
        if root.kept is not None:
            units = (f"{name} in {unit}" if unit else name for name, unit in root.kept.units)
            formula = to_text(root.kept.formula)
            out.print(f"  {root.name} of values kept elsewhere: {formula} ({', '.join(units)})")
    for risk in template.risk:
        mark = " (worrying)" if risk.worrying else ""
        out.print(f"  risk {risk.label}: {_when(risk)}{mark}")
    for form in template.forms or ():
        out.print(f"  other form {template.name}@{form.name}: {form.title}", markup=False)
    for other in template.populations or ():
        out.print(f"  population {other.name}: {other.source}")
    for source in template.sources:
        out.print(f"  source: {source}")
    for hint in hints:
        out.print(f"  hint: {hint}")


def _kind(root: "Root") -> str:
    """What a value is, and whether it is hidden at all."""
    kind = root.type.wanted if root.type.name == "category" else root.type.name
    kind = {"boolean": "yes or no"}.get(kind, kind)
    ordered = ", in this order" if root.type.ordered else ""
    return f"{kind}{ordered}{', public' if root.public else ''}"


def _bounds(root: "Root") -> tuple[str, str]:
    """The bounds in the value's own form; answers have none."""
    if root.type.name in ("boolean", "category"):
        return "", ""
    if root.type.name == "date":
        return root.type.written(root.domain.lower), root.type.written(root.domain.upper)
    return number(root.domain.lower), number(root.domain.upper)


def _kept(kept: "KeptFormula") -> dict[str, object]:
    from rootguard.expressions import to_text

    return {"formula": to_text(kept.formula), "units": dict(kept.units)}


def _when(risk: "RiskClass") -> str:
    if risk.limit is None:
        return "otherwise"
    return f"{'at most' if risk.inclusive else 'below'} {risk.limit:g}"
