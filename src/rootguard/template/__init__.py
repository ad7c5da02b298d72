"""Public knowledge about one calculation: load it, check it, describe it.

A template says which private values (roots) a calculation takes, within which public bounds, what
is computed from them, and what the result means. It is data, one TOML file each; the catalog ships
with the package and users write their own in the same form (docs/templates.md).

It holds no private value and takes none. It does not decide what rests on what beyond refusing
rings and dangling names: that is `graph`. Whatever is wrong with a file is a `TemplateError` that
names the file, the key and the remedy; nothing is guessed and nothing unknown is skipped.
"""

import functools
import importlib.resources
import os
from pathlib import Path

from rootguard.errors import UnknownNameError
from rootguard.template.model import (
    Derived,
    KeptFormula,
    Population,
    RiskClass,
    Root,
    Shape,
    Target,
    Template,
    TemplateForm,
)
from rootguard.template.reading import MAX_BYTES, MAX_ROOTS, near, parse_template, read_template

# Not called catalog: a folder of that name would hide the function.
_FOLDER = importlib.resources.files("rootguard.template") / "templates"


def load_template(source: str | os.PathLike[str]) -> Template:
    """Load a catalog template by name, or a file by path.

    A text with a path separator or ending in `.toml`, and any path object, is a path. `homa@clinic`
    is the template with the figures of another population that it has, `aip@mmol` the template in
    another form.
    """
    name = os.fspath(source)
    if isinstance(source, str) and "@" in name and not Path(name).exists():
        of, _, other = name.rpartition("@")
        template = load_template(of)
        if any(form.name == other for form in template.forms or ()):
            return template.of_form(other)
        return template.of_population(other)
    if not isinstance(source, str) or name.endswith(".toml") or "/" in name or os.sep in name:
        return read_template(Path(name))
    if name not in catalog():  # so a name that passes is ours and cannot walk the file system
        raise UnknownNameError("template", name, near(name, catalog()) or catalog())
    return _from_catalog(name)


@functools.cache
def catalog() -> tuple[str, ...]:
    """The names of the templates that ship with the package, sorted."""
    files = [entry.name for entry in _FOLDER.iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted(name.removesuffix(".toml") for name in files))


@functools.cache
def _from_catalog(name: str) -> Template:
    return parse_template((_FOLDER / f"{name}.toml").read_text("utf-8"), file=f"{name}.toml")


__all__ = [
    "MAX_BYTES",
    "MAX_ROOTS",
    "Derived",
    "KeptFormula",
    "Population",
    "RiskClass",
    "Root",
    "Shape",
    "Target",
    "Template",
    "TemplateForm",
    "catalog",
    "load_template",
    "parse_template",
]
