"""Files larger than memory, CSV or Parquet: read, noise and write at once, a piece at a time.

The output appears under its name when it is whole: it is written to a file beside it, which is
renamed at the end. A run that was killed leaves no output; run again with the same key, it writes
the same bytes, because the noise is a function of key and row. There is no second draw to avoid, so
whether a run begins anew or goes on where it was (`pieces`) is a matter of time alone.
"""

import contextlib
import csv
import dataclasses
import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from rootguard.allocation import Plan
from rootguard.batch.columns import Array, Layout, RecordBatch, Schema, Table, lay_out
from rootguard.batch.csv_lines import CsvLines
from rootguard.batch.job import Job, OnConflict
from rootguard.batch.kernel import REJECTS, Kernel, ReleasedBatch
from rootguard.batch.keys import Secret
from rootguard.batch.pieces import Pieces
from rootguard.batch.register import Fresh
from rootguard.batch.tables import ROWS
from rootguard.errors import FileError, NoiseError, RootGuardError, shielded
from rootguard.identifiers import Kind
from rootguard.template import Template

GROUP = 1 << 19
"""Rows of an output file that are written together, unless wide: a row group of Parquet."""
_CSV_GROUP = 1 << 14
"""The same of a CSV file: what is read together is written together, or copied once more."""
_LINES = 1 << 14
"""Lines that are made together: few enough that they are in the cache when they are written, and
that the memory they took is taken again instead of new pages."""
GROUP_BYTES = 1 << 26
"""Memory that rows take before they are written."""
# Pieces read ahead: enough that the kernel never waits, few enough that memory stays flat.
_WAITING = 4
# A CSV is read by so many bytes and wide Parquet rows by so many bytes at once, which bounds memory
# whatever the width of a row.
_CSV_BLOCK = 1 << 22
_READ_BYTES = 1 << 24

Progress = Callable[[float], None]
"""Is told the share that is done, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Which columns of a file are what; as for `sanitize`."""

    id_column: str
    identifiers: dict[str, Kind]
    roots: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a run did."""

    released: int
    rejected: int
    """Rows that are listed in the second file instead."""
    version: int
    """Which draw of the table this is."""
    fresh: bool
    """Whether everybody in it was drawn anew, because a value had changed."""


@shielded
def sanitize_file(
    source: Path,
    target: Path,
    template: Template,
    plan: Plan,
    secret: Secret,
    columns: Columns,
    *,
    rejects: Path | None = None,
    calibrate: bool = False,
    version: int = 1,
    on_conflict: OnConflict = "refuse",
    fresh: Fresh = "never",
    announce: Callable[[int], None] | None = None,
    progress: Progress | None = None,
    resume: bool = False,
) -> Summary:
    """Sanitize a file into another; the endings of their names say which is CSV or Parquet.

    `announce` is told the number of a fresh draw before it is made. With `resume`, finished pieces
    are kept beside the output until it is whole, and a run that was stopped begins with those that
    it had done. (Rows of people whom a store serves by name are always asked for again.)
    """
    for path in (source, target, *(() if rejects is None else (rejects,))):
        _format(path)
    places = [path.absolute() for path in (source, target, rejects) if path is not None]
    if len(set(places)) < len(places):
        raise FileError(target.name, "", "is named twice", "give each file a name of its own")
    try:
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(_reading(source))
            layout = lay_out(
                template,
                reader.schema.names,
                id_column=columns.id_column,
                columns=columns.roots,
                identifiers=columns.identifiers,
            )
            job = Job(
                secret,
                template,
                plan,
                layout,
                lambda: _needed(source, layout),
                calibrate=calibrate,
                version=version,
                on_conflict=on_conflict,
                fresh=fresh,
                announce=announce,
            )
            pieces = None
            if resume and not job.kernel.asks_vault:
                pieces = Pieces(
                    target,
                    source,
                    {
                        "plan": plan.hash,
                        "template": template.digest,
                        "key": secret.mark,
                        "version": job.version,
                        "calibrate": calibrate,
                        "columns": dataclasses.asdict(columns),
                    },
                )
                pieces.begin()
            out = stack.enter_context(_Draft(target, job.kernel.schema(reader.schema)))
            side = None if rejects is None else stack.enter_context(_Draft(rejects, REJECTS))
            summary = _flow(reader, job, out, side, progress or _quiet, pieces)
            # Both files are on disk before anybody is charged: a full disk refuses the run first.
            drafts = (out,) if side is None else (side, out)
            for draft in drafts:
                draft.finish()
            # The ledger first, the table last: killed in between, a run has charged for rows that
            # nobody saw, and the same run charges nothing more.
            job.keep()
            for draft in drafts:
                draft.publish()
            if pieces is not None:
                pieces.clear()
            return summary
    except RootGuardError:
        raise
    except Exception as problem:  # noqa: BLE001 - its text and frames may hold private cells
        if isinstance(problem, OSError) and problem.errno:  # Arrow's own texts have details
            reason = os.strerror(problem.errno)
            raise FileError(target.name, "", reason, "nothing was released") from None
        raise NoiseError("the file could not be worked on; nothing was released") from None


def _needed(source: Path, layout: Layout) -> Iterator[RecordBatch]:
    """The columns of a file that are read, from its beginning."""
    with _reading(source) as reader:
        for whole in reader.batches(layout.needed):
            for start in range(0, len(whole), ROWS):
                yield whole.slice(start, ROWS)


def _quiet(share: float) -> None:
    pass


def _flow(
    reader: "_Reader",
    job: Job,
    out: "_Draft",
    side: "_Draft | None",
    progress: Progress,
    pieces: Pieces | None,
) -> Summary:
    """Read ahead, work on several batches at once and write behind, all in their order.

    In threads: Arrow and NumPy work outside Python's lock, so all cores are used.
    """
    first = released = rejected = 0
    with _ReadAhead(reader.batches(None)) as batches, _WriteBehind(out) as written:
        for made, rows in _in_order(job.kernel, batches, pieces, categories=out.takes_categories):
            job.kernel.tell(made.gathered)
            first += rows
            released += len(made.batch)
            rejected += rows - len(made.batch)
            written.put(made.batch)
            if side is not None and len(made.rejects):
                side.write(made.rejects)
            progress(reader.share(first))
    return Summary(released=released, rejected=rejected, version=job.version, fresh=job.fresh)


def _in_order(
    kernel: Kernel,
    batches: Iterator[RecordBatch],
    done_before: Pieces | None,
    *,
    categories: bool,
) -> Iterator[tuple[ReleasedBatch, int]]:
    """What is released of each batch and how many rows it had, in order; few are under way."""

    def release(number: int, piece: RecordBatch, first: int) -> ReleasedBatch:
        if done_before is None:
            return kernel.release(piece, first, categories=categories)
        return done_before.release(number, kernel, piece, first)

    numbered = _numbered(batches)
    for number, piece, first in itertools.islice(numbered, 1):
        yield release(number, piece, first), len(piece)
    second = next(numbered, None)
    if second is None:
        return
    left = itertools.chain([second], numbered)
    workers = 1 if kernel.asks_vault else _processors()
    if workers == 1 or not kernel.settle():
        for number, piece, first in left:
            yield release(number, piece, first), len(piece)
        return
    with ThreadPoolExecutor(workers) as pool:
        # In the order of the table, and one more than there are threads: none waits for the next
        # piece, and no more pieces are in memory than that.
        under_way: deque[tuple[Future[ReleasedBatch], int]] = deque()
        try:
            for number, piece, first in left:
                under_way.append((pool.submit(release, number, piece, first), len(piece)))
                if len(under_way) > workers:
                    done, rows = under_way.popleft()
                    yield done.result(), rows
            while under_way:
                done, rows = under_way.popleft()
                yield done.result(), rows
        finally:  # a run that is stopped waits for what is being worked on and begins no more
            pool.shutdown(cancel_futures=True)


def _numbered(batches: Iterator[RecordBatch]) -> Iterator[tuple[int, RecordBatch, int]]:
    """Pieces of a table, each with its number and that of its first row."""
    first = number = 0
    for whole in batches:
        for start in range(0, len(whole), ROWS):
            piece = whole.slice(start, ROWS)
            yield number, piece, first
            number, first = number + 1, first + len(piece)


def _processors() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class _ReadAhead:
    """An iterator that is run ahead in a thread, a few items at the most."""

    def __init__(self, items: Iterator[RecordBatch]) -> None:
        self._items = items
        self._queue: queue.Queue[RecordBatch | BaseException | None] = queue.Queue(_WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            for item in self._items:
                if not self._offer(item):
                    return
        except Exception as problem:  # noqa: BLE001 - raised again where it is waited for
            end = problem
        self._offer(end)

    def _offer(self, item: RecordBatch | BaseException | None) -> bool:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=0.1)  # seconds until a stop is noticed at the latest
                return True
        return False

    def __enter__(self) -> Iterator[RecordBatch]:
        self._thread.start()
        return self._take()

    def _take(self) -> Iterator[RecordBatch]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def __exit__(self, *_: object) -> None:
        # Stop before joining: the reader may wait at a full queue that nobody empties any more.
        self._stop.set()
        self._thread.join()


class _WriteBehind:
    """Writes batches in a thread, lets few wait, and stops its feeder if writing fails."""

    def __init__(self, draft: "_Draft") -> None:
        self._draft = draft
        self._queue: queue.SimpleQueue[RecordBatch | None] = queue.SimpleQueue()
        # Guards the bytes that wait; a queue with a limit would count batches, which may be wide.
        self._room = threading.Condition()
        self._waiting = 0
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            if self._problem is None:
                try:
                    self._draft.write(batch)
                except Exception as problem:  # noqa: BLE001 - raised again by the feeder
                    self._problem = problem
            with self._room:
                self._waiting -= batch.nbytes
                self._room.notify()

    def put(self, batch: RecordBatch) -> None:
        size = batch.nbytes
        with self._room:
            self._room.wait_for(lambda: not self._waiting or self._waiting + size <= GROUP_BYTES)
            self._waiting += size
        if self._problem is not None:
            raise self._problem
        self._queue.put(batch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()
        if self._problem is not None and kind is None:
            raise self._problem


@dataclass(frozen=True, slots=True)
class _Reader:
    """A file's schema and record batches, and how far a row is into it.

    Where only some columns are asked for, others may be left out.
    """

    schema: Schema
    batches: Callable[[Sequence[str] | None], Iterator[RecordBatch]]
    share: Callable[[int], float]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[_Reader]:
    """A file to be read; what is wrong with it is said without quoting it."""
    if not path.is_file():
        raise FileError(path.name, "", "there is no such file", "give the path of a file")
    opened = _read_parquet(path) if _format(path) == "parquet" else _read_csv(path)
    with opened as reader:
        yield reader


@contextlib.contextmanager
def _read_parquet(path: Path) -> Iterator[_Reader]:
    file = None
    with contextlib.suppress(pa.ArrowInvalid):
        # Without the buffer, which would hold whole row groups: memory stays flat.
        file = parquet.ParquetFile(path, pre_buffer=False, memory_map=True)
    if file is None:
        raise FileError(path.name, "", "is not a Parquet file", "write it again, or name it .csv")
    with file:
        yield _Reader(
            file.schema_arrow,
            lambda columns: _whole_batches(file, path, columns),
            lambda rows: rows / max(file.metadata.num_rows, 1),
        )


def _whole_batches(file: Any, path: Path, columns: Sequence[str] | None) -> Iterator[RecordBatch]:  # noqa: ANN401
    batches = file.iter_batches(_together(file.metadata), columns=columns)
    while True:
        batch, damaged = None, False
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowInvalid):
            damaged = True
        if damaged:  # raised here: what Arrow says of a page may quote it
            raise FileError(path.name, "", "is damaged", "write it again; nothing was released")
        if batch is None:
            return
        yield batch


def _together(metadata: Any) -> int:  # noqa: ANN401 - Arrow has no types
    """How many rows are read at once: few, where they are wide."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    width = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=1)
    return int(min(4 * ROWS, max(_READ_BYTES // max(width, 1), 1)))


@contextlib.contextmanager
def _read_csv(path: Path) -> Iterator[_Reader]:
    """Every cell as text, so that what passes unread passes to the letter."""
    names: list[str] | None = None
    # Without a byte order mark, as Arrow reads it: a first column by another name would be taken
    # for one that may be read as numbers, and 007 and 7 for one person.
    with (
        contextlib.suppress(UnicodeEncodeError, csv.Error),
        # Lines behind the first are decoded along with it; what is wrong there is found there.
        path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        found = next(csv.reader(text), [])
        "".join(found).encode()
        names = found
    if not names:
        raise FileError(path.name, "header", "cannot be read", "write a first line of names, UTF-8")
    lengths: list[int] = []

    def uneven(row: Any) -> str:  # noqa: ANN401 - Arrow has no types
        lengths.append(row.actual_columns)
        return "error"

    with path.open("rb") as content:
        stream, problem = None, False
        try:
            stream = arrow_csv.open_csv(
                content,
                read_options=arrow_csv.ReadOptions(block_size=_CSV_BLOCK),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=True, invalid_row_handler=uneven
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    # An empty cell has no value; a quoted one is an empty text, and stays one.
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            )
        except pa.ArrowInvalid:
            problem = True
        if problem or stream is None:
            raise _bad_csv(path, lengths, len(names))
        blocks = -(-path.stat().st_size // _CSV_BLOCK)
        met: list[int] = []  # rows of each block that was read

        def batches(_: Sequence[str] | None) -> Iterator[RecordBatch]:
            for batch in _rows_of(stream, path, lengths, len(names)):
                met.append(len(batch))
                yield batch

        def share(rows: int) -> float:
            # Blocks are read ahead, some of them by Arrow, so where it stands in the file says
            # little; they have nearly as many rows each.
            return min(rows / max(sum(met), 1) * len(met) / blocks, 1.0)

        yield _Reader(stream.schema, batches, share)


def _rows_of(stream: Any, path: Path, lengths: list[int], width: int) -> Iterator[RecordBatch]:  # noqa: ANN401
    doubtful = _ends_in_quotes(path)
    while True:
        batch, wrong = None, False
        try:
            batch = stream.read_next_batch()
        except StopIteration:
            break
        except pa.ArrowInvalid:
            wrong = True
        if wrong or batch is None:
            raise _bad_csv(path, lengths, width)
        doubtful = doubtful or _has_lines(batch.column(width - 1))
        yield batch
    if doubtful:
        _check_quotes(path)


def _has_lines(column: Array) -> bool:
    """Whether some text of a column has several lines."""
    written = column.buffers()[2]
    return written is not None and any(
        end in memoryview(written).tobytes() for end in (b"\n", b"\r")
    )


def _ends_in_quotes(path: Path) -> bool:
    """Whether a file's last line has quotes and no end."""
    with path.open("rb") as content:
        content.seek(max(path.stat().st_size - _CSV_BLOCK, 0))
        last = content.read().rpartition(b"\n")[2]
    return b'"' in last


def _check_quotes(path: Path) -> None:
    """Refuse a file with a quote that is not closed before a comma or the end of a line.

    Arrow reads such a cell up to the next quote or to the file's end, whole rows of other people
    with it, and they would be released as its text. Only in the last column: elsewhere the row has
    too many or too few columns. So this is asked only where a text there has several lines.
    """
    limit = csv.field_size_limit(_CSV_BLOCK)  # longer ones are refused by Arrow
    begun, wrong = 0, False
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            lines = csv.reader(text, strict=True)
            for _ in lines:
                begun = lines.line_num
    except csv.Error:
        wrong = True
    finally:
        csv.field_size_limit(limit)
    if wrong:  # raised here, where no frame holds what was read
        raise FileError(
            path.name,
            f"line {begun + 1}",
            "the quotes of a cell do not end where it ends",
            "repair it; nothing was released",
        )


def _bad_csv(path: Path, lengths: list[int], width: int) -> FileError:
    if lengths:
        problem = f"a line has {lengths[0]} columns where the header has {width}"
        return FileError(path.name, "", problem, "repair it; nothing was released")
    problem = "is not CSV in UTF-8, or has a quote that is never closed"
    return FileError(path.name, "", problem, "repair it; nothing was released")


class _Draft:
    """A file that is written beside its place and put there when it is whole."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        self._schema = schema
        self._writer: Any = None
        self._held: list[RecordBatch] = []
        self._rows = self._bytes = 0
        self._group: int | None = None

    def __enter__(self) -> Self:
        _sweep(self._path)
        if _format(self._path) == "parquet":
            self._writer = parquet.ParquetWriter(self._draft, self._schema)
        else:
            self._schema = pa.schema([_plain(field) for field in self._schema])
            lines = CsvLines.of(self._schema)
            self._writer = (
                arrow_csv.CSVWriter(self._draft, self._schema)
                if lines is None
                else _LineWriter(self._draft, lines)
            )
            self._group = _CSV_GROUP
        return self

    @property
    def takes_categories(self) -> bool:
        """Whether columns may come as categories, whatever the schema says."""
        return isinstance(self._writer, _LineWriter)

    def write(self, batch: RecordBatch) -> None:
        self._held.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= (self._group or GROUP) or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            table: Table = pa.Table.from_batches(self._held)
            self._held, self._rows, self._bytes = [], 0, 0
            if isinstance(self._writer, _LineWriter):
                self._writer.write_table(table)  # which writes categories as they are
            else:
                self._writer.write_table(table.cast(self._schema))

    def finish(self) -> None:
        """Write the rest, to the disk.

        Before the file has its name: after a crash the name stands for a whole file or none.
        """
        self._flush()
        self._writer.close()
        self._writer = None
        with self._draft.open("rb") as content:
            os.fsync(content.fileno())

    def publish(self) -> None:
        """Put the finished file in its place."""
        self._draft.replace(self._path)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            with contextlib.suppress(Exception):  # it is thrown away; only the file handle matters
                self._writer.close()
        self._draft.unlink(missing_ok=True)


class _LineWriter:
    """A file of lines, with the methods of Arrow's writers."""

    def __init__(self, path: Path, lines: CsvLines) -> None:
        self._lines = lines
        self._file = path.open("wb", buffering=0)  # what is written comes in large pieces
        self._file.write(lines.header())

    def write_table(self, table: Table) -> None:
        for start in range(0, len(table), _LINES):
            for piece in self._lines.lines(table.slice(start, _LINES)):
                left = memoryview(piece)
                while left:  # the system may take a part of it
                    left = left[self._file.write(left) :]

    def close(self) -> None:
        self._file.close()


def _plain(field: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """CSV knows no categories."""
    kind = field.type
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field


def _sweep(path: Path) -> None:
    """Remove drafts of runs that are no more; they hold released rows only."""
    for left in path.parent.glob(f".{path.name}.*.draft"):
        owner = left.name.removesuffix(".draft").rpartition(".")[2]
        if owner.isdecimal() and not _alive(int(owner)):
            left.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    # Ours is not begun yet when drafts are swept: one with our number is an earlier process's.
    return process != os.getpid()


def _format(path: Path) -> str:
    ending = path.suffix.casefold()
    if ending == ".csv":
        return "csv"
    if ending in {".parquet", ".pq"}:
        return "parquet"
    raise FileError(path.name, "", "is neither .csv nor .parquet", "name it by what it is")
