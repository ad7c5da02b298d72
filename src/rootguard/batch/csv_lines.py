"""Lines of CSV as Arrow's own writer writes them, to the byte, in half its time.

What takes the time is writing numbers. A noised root has as many values as its grid has points, so
each is written once and looked up after that. Types that Arrow's writer knows and this does not are
left to it; `CsvLines.of` says which.
"""

import io

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from rootguard.batch.columns import Array, Schema, Table, is_text, text_bytes

# Distinct numbers, as a share of the rows, up to which looking up is quicker than writing.
_FEW = 0.25


class CsvLines:
    """Writes tables of one schema as lines."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._repeats = [True] * len(schema)  # whether a column was worth looking up last time
        # The values that a column had last time and how they are written: mostly it has them again.
        self._known: dict[int, tuple[Array, list[str]]] = {}
        self._looked_up: dict[int, tuple[list[str], tuple[str, str], Array]] = {}

    @classmethod
    def of(cls, schema: Schema) -> "CsvLines | None":
        """A writer of lines, if all types of the schema are texts, numbers or truth values."""
        return cls(schema) if all(_known(field.type) for field in schema) else None

    def header(self) -> bytes:
        """The first line, by Arrow's writer itself."""
        line = io.BytesIO()
        arrow_csv.write_csv(self.schema.empty_table(), line)
        return line.getvalue()

    def lines(self, table: Table) -> tuple[bytes, memoryview]:
        """All rows of a table, in two pieces; a column may also come as categories."""
        if not len(table):
            return b"", memoryview(b"")
        columns: list[_Column] = []
        between = [""]  # what stands before each column and after the last
        for place, content in enumerate(table.columns):
            column = self._column(place, _whole(content))
            between[-1] += '"' * column.bare
            columns.append(column)
            between.append('"' * column.bare + ("," if place < len(table.columns) - 1 else "\n"))
        # What begins a line ends the one before it, so that it need not be joined to each.
        begin, end = between[0].encode(), between[-1] + between[0]
        for place, text in enumerate([*between[1:-1], end], start=1):
            before, after = columns[place - 1], columns[place : place + 1]
            if before.written is None and after and after[0].written is not None:
                after[0].prefix = text
            else:
                before.suffix = text
        texts = [
            column.texts() if column.written is None else self._look_up(place, column)
            for place, column in enumerate(columns)
        ]
        joined = pc.binary_join_element_wise(*texts, _text("")) if len(texts) > 1 else texts[0]
        _, places, buffer = joined.buffers()
        bounds = memoryview(places).cast("q")[joined.offset : joined.offset + len(joined) + 1]
        return begin, memoryview(buffer)[bounds[0] : bounds[-1] - len(begin)]

    def _column(self, place: int, content: Array) -> "_Column":
        quoted = is_text(self.schema.field(place).type)
        coded = self._coded(place, content)
        if coded is not None:
            return _Column(
                content=coded.indices, written=self._written(place, coded, quoted=quoted)
            )
        texts = content.cast(pa.large_string())
        if quoted and (text_bytes(texts)[1] == ord('"')).any():
            texts = pc.replace_substring(texts, '"', '""')
        if quoted and not texts.null_count:
            return _Column(content=texts, bare=True)
        if quoted:  # what is missing has no quotes
            texts = pc.binary_join_element_wise(_text('"'), texts, _text('"'), _text(""))
        return _Column(content=pc.fill_null(texts, _text("")) if texts.null_count else texts)

    def _written(self, place: int, coded: Array, *, quoted: bool) -> list[str]:
        """How each category of a column is written."""
        known = self._known.get(place)
        if known is None or not _is_same(known[0], coded.dictionary):
            values = coded.dictionary.cast(pa.large_string()).to_pylist()
            known = coded.dictionary, [_quoted(value) if quoted else value for value in values]
            self._known[place] = known
        return known[1]

    def _look_up(self, place: int, column: "_Column") -> Array:
        """A column's values, each with what stands around it."""
        written, around = column.written or [], (column.prefix, column.suffix)
        kept = self._looked_up.get(place)
        if kept is None or kept[0] is not written or kept[1] != around:
            texts = [f"{around[0]}{value}{around[1]}" for value in [*written, ""]]
            kept = written, around, pa.array(texts, pa.large_string())
            self._looked_up[place] = kept
        places = column.content
        if places.null_count:
            places = pc.fill_null(places.cast(pa.int64()), len(written))
        return kept[2].take(places)

    def _coded(self, place: int, column: Array) -> Array | None:
        """A column as categories, if its values repeat."""
        if pa.types.is_dictionary(column.type):
            return column
        if not self._repeats[place]:
            return None
        coded = column.dictionary_encode()
        self._repeats[place] = len(coded.dictionary) <= _FEW * len(column)
        return coded if self._repeats[place] else None


class _Column:
    """A column on its way into lines.

    What stands around a value is written together with it where values repeat, once for each of
    them: to join it to every row would take as long as to write the value. The content is texts, or
    places among the `written` values; `bare` says that quotes have yet to be put around it.
    """

    __slots__ = ("bare", "content", "prefix", "suffix", "written")

    def __init__(
        self, *, content: Array, written: list[str] | None = None, bare: bool = False
    ) -> None:
        self.content, self.written, self.bare = content, written, bare
        self.prefix = self.suffix = ""

    def texts(self) -> Array:
        """What is joined, where values are not looked up."""
        if not self.suffix:
            return self.content
        return pc.binary_join_element_wise(self.content, _text(self.suffix), _text(""))


def _whole(column: Array) -> Array:
    whole = column.unify_dictionaries().combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _is_same(one: Array, other: Array) -> bool:
    """Whether two arrays are one in memory. Equal ones may be written differently: -0 and 0."""
    if (one.type, len(one), one.offset) != (other.type, len(other), other.offset):
        return False
    places = [[each and each.address for each in array.buffers()] for array in (one, other)]
    return bool(places[0] == places[1])


def _text(text: str) -> Array:
    return pa.scalar(text, pa.large_string())


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _known(kind: object) -> bool:
    return bool(
        is_text(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    )
