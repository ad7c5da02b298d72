"""How plans, guarantees, sessions and templates look in a notebook: small tables, text escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption. Whatever stands in it is text, never markup."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
