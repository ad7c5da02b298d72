"""Files through the command line: streamed, atomic, the same bytes again, no value beside them."""

import contextlib
import csv
import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from rootguard import load_template
from rootguard.cli.batch import command
from rootguard.cli.vault import command as vault
from rootguard.errors import FileError, RootGuardError
from tests.support.canary import SENTINELS, everything, leaks
from tests.support.programs import PYTHON

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")
arrow_csv = pytest.importorskip("pyarrow.csv")

from rootguard.batch import files  # noqa: E402
from rootguard.batch.columns import RecordBatch, Table, lay_out  # noqa: E402
from rootguard.batch.kernel import Kernel, ReleasedBatch  # noqa: E402
from tests.support.patience import PATIENCE  # noqa: E402

FIB4 = load_template("fib4")
ROOTS = ("age", "ast", "alt", "plt")
_CATEGORIES = ("site", "risk")


def table(rows: int, first: int = 0) -> Table:
    generator = np.random.default_rng(first)
    return pa.table(
        {
            "mrn": [f"P{number:06d}" for number in range(first, first + rows)],
            "age": generator.integers(18, 80, rows),
            "ast": np.round(generator.lognormal(3, 0.5, rows), 2),
            "alt": np.round(generator.lognormal(3, 0.5, rows), 2),
            "plt": generator.normal(230, 50, rows),
            "site": pa.array(["north", "south, east"] * (rows // 2)).dictionary_encode(),
        }
    )


def arguments(source: Path, target: Path, *more: str) -> list[str]:
    key = source.parent / "key"
    usual = ["fib4", "--in", str(source), "--out", str(target), "--budget", "0.9", "--id", "mrn"]
    return [*usual, "--key-file", str(key), *more]


def run(source: Path, target: Path, *more: str) -> Result:
    return CliRunner().invoke(command, arguments(source, target, *more), catch_exceptions=True)


def run_in(url: str, source: Path, target: Path) -> Result:
    """The same under a store's secret."""
    usual = [word for word in arguments(source, target) if word != "--key-file"]
    usual.remove(str(source.parent / "key"))
    return CliRunner().invoke(command, [*usual, "--store", url], catch_exceptions=True)


def test_a_parquet_file_is_released_and_again_the_same_to_the_byte(tmp_path: Path) -> None:
    source, first, second = (tmp_path / f"{name}.parquet" for name in ("in", "first", "second"))
    pq.write_table(table(100_000), source, row_group_size=7_000)
    for target in (first, second):
        result = run(source, target)
        assert result.exit_code == 0, result.output
        assert result.output == "100000 rows released\n"
    assert first.read_bytes() == second.read_bytes()
    made = pq.read_table(first)
    assert made.column_names == [*pq.read_table(source).column_names, "fib4", "risk"]
    assert made.schema.field("site").type == pq.read_table(source).schema.field("site").type
    assert made["mrn"].equals(pq.read_table(source)["mrn"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "first.parquet",
        "in.parquet",
        "key",
        "second.parquet",
    ]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_csv_and_parquet_say_the_same_and_a_later_file_too(tmp_path: Path) -> None:
    whole = table(600)
    pq.write_table(whole, tmp_path / "in.parquet")
    pq.write_table(whole.slice(400), tmp_path / "later.parquet")
    with (tmp_path / "in.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(whole.column_names)
        writer.writerows(zip(*whole.to_pydict().values(), strict=True))
    for name in ("in.parquet", "in.csv", "later.parquet"):
        result = run(tmp_path / name, tmp_path / f"out.{name}")
        assert result.exit_code == 0, result.output
    made = pq.read_table(tmp_path / "out.in.parquet").to_pydict()
    later = pq.read_table(tmp_path / "out.later.parquet").to_pydict()
    with (tmp_path / "out.in.csv").open(newline="") as written:
        lines = list(csv.DictReader(written))
    for column in (*ROOTS, "fib4"):
        assert [float(line[column]) for line in lines] == made[column]
        assert later[column] == made[column][400:]
    for column in ("mrn", "site", "risk"):
        assert [line[column] for line in lines] == made[column]


@pytest.mark.parametrize("more", [(), ("--calibrate",)])
def test_csv_is_what_arrow_writes_of_the_released_table(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Though the points of a grid are written once and looked up; some values are missing."""
    whole = table(600)
    for place, root in enumerate(ROOTS):
        gone = pa.array((np.arange(600) + place) % 7 == 0)
        column = pc.if_else(gone, None, whole[root])
        whole = whole.set_column(whole.schema.get_field_index(root), root, column)
    pq.write_table(whole, tmp_path / "in.parquet")
    for target in ("out.csv", "out.parquet"):
        result = run(tmp_path / "in.parquet", tmp_path / target, *more)
        assert result.exit_code == 0, result.output
    made = pq.read_table(tmp_path / "out.parquet")
    texts = [pa.field(each.name, pa.string()) for each in made.schema if each.name in _CATEGORIES]
    plain = pa.schema(
        [{field.name: field for field in texts}.get(each.name, each) for each in made.schema]
    )
    arrow_csv.write_csv(made.cast(plain), tmp_path / "arrow.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "arrow.csv").read_bytes()


def test_what_passes_unread_in_csv_passes_to_the_letter(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(
        'mrn,age,ast,alt,plt,code,note\n001,40,20,30,200,007,"a ""b"", c"\n002,41,,30,200,1e5,NA\n'
    )
    assert run(source, target).exit_code == 0
    with target.open(newline="") as written:
        first, second = csv.DictReader(written)
    assert (first["mrn"], first["code"], first["note"]) == ("001", "007", 'a "b", c')
    assert (second["code"], second["note"], second["ast"], second["fib4"]) == ("1e5", "NA", "", "")


def test_a_byte_order_mark_changes_neither_who_a_row_is_about_nor_the_draw(tmp_path: Path) -> None:
    text = "mrn,age,ast,alt,plt\n007,54,23,30,220\n7,61,40,33,180\n"
    for name, encoding in (("plain", "utf-8"), ("marked", "utf-8-sig")):
        (tmp_path / f"{name}.csv").write_text(text, encoding=encoding)
        made = run(tmp_path / f"{name}.csv", tmp_path / f"{name}-out.csv")
        assert made.exit_code == 0, made.output
    plain, marked = (
        (tmp_path / f"{name}-out.csv").read_text("utf-8") for name in ("plain", "marked")
    )
    assert marked == plain
    assert [row[0] for row in csv.reader(plain.splitlines())] == ["mrn", "007", "7"]


def test_rows_left_out_are_told_by_number_column_and_reason(tmp_path: Path) -> None:
    source, target, side = (tmp_path / name for name in ("in.csv", "out.csv", "side.csv"))
    source.write_text(
        "mrn,age,ast,alt,plt\n"
        "a,40,20,30,200\nb,forty,20,30,200\n,40,20,30,200\nc,40,inf,x,200\nd,40,20,30,200\n"
    )
    result = run(source, target, "--rejects", str(side), "--json")
    told_of = {"draw": 1, "fresh": False, "released": 2, "rejected": 3}
    assert json.loads(result.output) | {"plan": ""} == {"plan": "", **told_of}
    with side.open(newline="") as told:
        lines = [(line["row"], line["column"], line["reason"]) for line in csv.DictReader(told)]
    assert lines == [
        ("1", "age", "not a number"),
        ("2", "mrn", "the id is missing"),
        ("3", "ast", "not a finite number"),
        ("3", "alt", "not a number"),
    ]


KILLED = """
import os, signal, sys
from rootguard.batch import files
flush = files._Draft._flush
def die(self):
    flush(self)
    os.kill(os.getpid(), signal.SIGKILL)
files._Draft._flush = die
files.GROUP = 20_000
from rootguard.cli.batch import command
command()
"""


def test_a_run_killed_half_way_and_started_again_gives_the_same_bytes(tmp_path: Path) -> None:
    source, target, whole = (tmp_path / f"{n}.parquet" for n in ("in", "out", "whole"))
    pq.write_table(table(60_000), source)
    assert run(source, whole).exit_code == 0
    killed = subprocess.run(
        [*PYTHON, "-c", KILLED, *arguments(source, target)],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    drafts = list(tmp_path.glob(".out.parquet.*.draft"))
    assert len(drafts) == 1  # it died after it had written some
    assert drafts[0].stat().st_size > 100_000
    assert run(source, target).exit_code == 0
    assert target.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob(".*.draft"))


INTERRUPTED = KILLED.replace("SIGKILL", "SIGINT")


def stopped(code: str, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """A run of the command that stops itself after its first group of rows."""
    return subprocess.run(
        [*PYTHON, "-c", code, *words], capture_output=True, timeout=PATIENCE, check=False
    )


def test_a_run_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    write(table(80_000), source)
    assert run(source, tmp_path / "whole.csv").exit_code == 0  # and the key is there
    before = sorted(tmp_path.iterdir())
    done = stopped(INTERRUPTED, *arguments(source, target))
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "Aborted!"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_run_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    source, target, whole = (tmp_path / f"{n}.{ending}" for n in ("in", "out", "whole"))
    write(table(160_000), source)
    assert run(source, whole, "--rejects", str(tmp_path / "told.csv")).exit_code == 0
    done = stopped(KILLED, *arguments(source, target, "--resume"))
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / f".out.{ending}.pieces").glob("*.released"))
    drawn: list[int] = []
    release = Kernel.release

    def counted(self: Kernel, batch: RecordBatch, first: int = 0) -> ReleasedBatch:
        drawn.append(len(batch))
        return release(self, batch, first)

    monkeypatch.setattr(Kernel, "release", counted)
    again = run(source, target, "--resume", "--rejects", str(tmp_path / "again.csv"))
    assert again.exit_code == 0, again.output
    assert sum(drawn) < 160_000  # a run that began anew would draw all
    assert target.read_bytes() == whole.read_bytes()
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "told.csv").read_bytes()
    assert not (tmp_path / f".out.{ending}.pieces").exists()


def test_pieces_of_another_run_are_not_taken_up(tmp_path: Path) -> None:
    source, target, whole = (tmp_path / f"{n}.parquet" for n in ("in", "out", "whole"))
    write(table(60_000), source)
    assert run(source, whole, "--calibrate").exit_code == 0
    done = stopped(KILLED, *arguments(source, target, "--resume"))
    assert done.returncode == -signal.SIGKILL
    assert run(source, target, "--calibrate", "--resume").exit_code == 0
    assert target.read_bytes() == whole.read_bytes()


def test_one_worker_and_several_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.parquet"
    write(table(40_000), source)
    monkeypatch.setattr(files, "ROWS", 4_000)
    outs = []
    for workers in (1, 4):
        monkeypatch.setattr(files, "_processors", lambda workers=workers: workers)
        target = tmp_path / f"{workers}.parquet"
        done = run(source, target, "--calibrate", "--identifier", "mrn=code")
        assert done.exit_code == 0, done.output
        outs.append(target.read_bytes())
    assert outs[0] == outs[1]


def write(content: Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(content, path)
        return
    from pyarrow import csv as arrow_csv

    plain = content.set_column(5, "site", content.column("site").cast(pa.string()))
    arrow_csv.write_csv(plain, path)


def test_the_vaults_secret_serves_all_runs_and_its_ledger_lists_them(tmp_path: Path) -> None:
    from rootguard import open_store

    source = tmp_path / "in.parquet"
    pq.write_table(table(50), source)
    url = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    outs = []
    for name in ("one", "two"):
        target = tmp_path / f"{name}.parquet"
        result = run_in(url, source, target)
        assert result.exit_code == 0, result.output
        outs.append(target.read_bytes())
    assert outs[0] == outs[1]
    store = open_store(url)
    assert [entry.rows for entry in store.tables()] == [50] * 2 * len(ROOTS)
    assert [entry.drawn for entry in store.tables()] == [50] * len(ROOTS) + [0] * len(ROOTS)
    assert not store.verify()
    store.close()
    told = CliRunner().invoke(vault, ["tables", "--store", url, "--json"])
    assert [(line["rows"], line["most"]) for line in json.loads(told.output)] == [(50, 1)] * 8
    shown = CliRunner().invoke(vault, ["tables", "--store", url])
    assert "fib4" in shown.output
    assert "Platelets (plt)" in shown.output
    assert "draw 1" in shown.output


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held is what waits in the queues and one group of rows."""
    monkeypatch.setattr(files, "GROUP", 2_000)
    monkeypatch.setattr(files, "ROWS", 500)
    held: list[int] = []
    write = files._Draft.write

    def watched(self: files._Draft, batch: RecordBatch) -> None:
        write(self, batch)
        held.append(self._rows)

    monkeypatch.setattr(files._Draft, "write", watched)
    source = tmp_path / "in.parquet"
    pq.write_table(table(20_000), source)
    assert run(source, tmp_path / "out.parquet").exit_code == 0
    assert len(held) == 40
    assert max(held) < 2_000


MEASURED = """
import resource, sys
import pyarrow
from rootguard.cli.batch import command
from rootguard.batch import files
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
files.GROUP_BYTES = 1 << 23
medium, large, *words = sys.argv[1:]
peaks = []
for name in (medium, large):
    command(["fib4", "--in", name, "--out", name + ".out.csv", *words], standalone_mode=False)
    peaks.append(peak())
print(*peaks, pyarrow.default_memory_pool().max_memory())
"""


def test_a_file_larger_than_the_memory_that_is_used_is_streamed(tmp_path: Path) -> None:
    """Once what the allocator keeps ready is there, three times the rows take no more memory."""
    note = "x" * 900
    block = "".join(
        f"P{row:06d},{20 + row % 60},{10 + row % 77}.5,{12 + row % 55},{150 + row % 200},{note}\n"
        for row in range(20_000)
    )
    for name, times in (("medium.csv", 8), ("large.csv", 24)):
        with (tmp_path / name).open("w") as out:
            out.write("mrn,age,ast,alt,plt,note\n")
            for _ in range(times):
                out.write(block)
    url = f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    words = ["--budget", "0.9", "--id", "mrn", "--store", url]
    files_named = [str(tmp_path / name) for name in ("medium.csv", "large.csv")]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *files_named, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    medium, large, tables = (int(word) for word in done.stdout.splitlines()[-1].split())
    size = (tmp_path / "large.csv").stat().st_size
    assert size > 400 << 20
    # Kept in memory it would be two thirds of the size; what an allocator keeps ready varies.
    assert large - medium < size / 4
    assert tables < size / 4


BAD_FILES = {
    "in.csv": [
        b"mrn,age,ast,alt,plt\nZebulon,47.318264951,91.827364519\n",
        b"mrn,age,ast,alt,plt\nZebulon,47.318264951,91.827364519,\xff\xfe,1\n",
        b"",
        b"mrn,age\nZebulon,47.318264951\n",
    ],
    "in.parquet": [b"PAR1 91.827364519 Zebulon", b""],
    "in.txt": [b"91.827364519"],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, many in BAD_FILES.items() for content in many]
)
def test_a_bad_file_is_refused_without_quoting_it_and_leaves_nothing(
    name: str, content: bytes, tmp_path: Path
) -> None:
    source, target = tmp_path / name, tmp_path / "out.csv"
    source.write_bytes(content)
    result = run(source, target)
    assert isinstance(result.exception, RootGuardError)
    assert not leaks(everything(result.exception) + result.output)
    assert not target.exists()
    assert not list(tmp_path.glob(".*"))


OPEN_QUOTES = {
    "up to the end": b'x\nZebulon,51,91.827364519,30,200,"never\nP3,50,47.318264951,30,200,x\n',
    "at the end, which is cut": b'x\nZebulon,51,91.827364519,30,200,"cut he',
    "up to the next quote": b'x\nP2,50,40,30,200,"a\nZebulon,51,91.827364519,30,200,"b\n',
}


@pytest.mark.parametrize("content", OPEN_QUOTES.values(), ids=OPEN_QUOTES)
def test_a_quote_that_is_not_closed_cannot_take_other_rows_into_what_is_released(
    content: bytes, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(b"mrn,age,ast,alt,plt,note\nP1,50,40,30,200," + content)
    result = run(source, target)
    assert isinstance(result.exception, FileError)
    assert "line 3: the quotes of a cell do not end where it ends" in str(result.exception)
    assert not leaks(everything(result.exception) + result.output)
    assert not list(tmp_path.glob("*out*"))


def test_texts_of_several_lines_with_quotes_in_them_pass(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    notes = ["two\nlines", '"quoted"\nP9,1,2,3,4,""', 'say "hi"', ""]
    with source.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["mrn", *ROOTS, "note"])
        lines.writerows([f"P{n}", 50, 40, 30, 200, note] for n, note in enumerate(notes))
    assert run(source, target).exit_code == 0
    with target.open(newline="") as file:
        assert [line["note"] for line in csv.DictReader(file)] == notes


def test_letters_of_another_encoding_are_not_said_to_be_in_the_header(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"mrn,age,ast,alt,plt,note\nP1,50,40,30,200,Jos\xe9\n")
    with pytest.raises(FileError, match=r"in\.csv: is not CSV in UTF-8"):
        list(files._needed(source, lay_out(FIB4, ["mrn", *ROOTS], id_column="mrn")))
    source.write_bytes(b"mrn,age,ast,alt,plt,\xe9\nP1,50,40,30,200,x\n")
    with pytest.raises(FileError, match="header: cannot be read"), files._reading(source):
        pass


def test_a_parquet_file_with_a_damaged_page_is_named(tmp_path: Path) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    write(table(20_000), source)
    content = bytearray(source.read_bytes())
    content[4:-20_000] = bytes(len(content) - 20_004)
    source.write_bytes(content)
    result = run(source, target)
    assert str(result.exception) == "in.parquet: is damaged; write it again; nothing was released"
    assert not list(tmp_path.glob("*out*"))


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
from rootguard.cli.main import main
main()
"""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("more", [[], ["--resume"]], ids=["", "resume"])
def test_a_disk_that_takes_no_more_is_named_and_keeps_no_half_file(
    ending: str, more: list[str], tmp_path: Path
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / f"out.{ending}"
    write(table(40_000), source)
    done = stopped(FULL, "batch", *arguments(source, target, *more))
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == (
        f"rootguard: out.{ending}: File too large; nothing was released\n"
    )
    left = {path.name for path in tmp_path.glob(".out*/*")} | {
        path.name for path in tmp_path.glob(".out*.draft")
    }
    assert not [name for name in left if not name.endswith((".released", ".rejects", "run"))]
    assert not target.exists()


def test_nobody_is_charged_for_a_file_that_the_disk_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rootguard import open_store

    source, url = tmp_path / "in.csv", f"sqlite:///{tmp_path / 'vault.sqlite3'}"
    write(table(50), source)
    open_store(url, create=True).close()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr("rootguard.batch.files.os.fsync", full)
        result = run_in(url, source, tmp_path / "out.csv")
        assert "out.csv: No space left on device" in str(result.exception)
    with contextlib.closing(open_store(url)) as store:
        assert not store.tables()
    assert run_in(url, source, tmp_path / "out.csv").exit_code == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_share_that_is_done_grows_with_the_rows(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_CSV_BLOCK", 1 << 16)
    source = tmp_path / f"in.{ending}"
    write(table(20_000), source)
    with files._reading(source) as reader:
        rows, shares = 0, []
        for batch in list(reader.batches(None)):  # all read ahead
            rows += len(batch)
            shares.append(reader.share(rows))
    steps = [rows / 20_000 for rows in range(0, 20_001, 20_000 // len(shares))][1:]
    assert shares == pytest.approx(steps, abs=0.1)
    assert shares[-1] == pytest.approx(1)


def test_the_side_file_and_all_that_is_printed_hold_no_sentinel(tmp_path: Path) -> None:
    source, target, side = (tmp_path / name for name in ("in.csv", "out.csv", "side.csv"))
    good = ["Zebulon Quackenbush", *(str(value) for value in SENTINELS.values())]
    bad = [*good[:2], "x91.827364519", *good[3:]]
    lines = ["mrn," + ",".join(SENTINELS), ",".join(good), ",".join(bad), "," + ",".join(good[1:])]
    source.write_text("\n".join(lines) + "\n")
    assert leaks(source.read_text())  # the control
    result = run(source, target, "--rejects", str(side), "--identifier", "mrn=person")
    assert result.exit_code == 0, result.output
    assert len(side.read_text().splitlines()) == 3
    assert not leaks(side.read_text() + target.read_text() + result.output)


def test_one_name_for_two_files_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("mrn,age,ast,alt,plt\n")
    result = run(source, source)
    assert isinstance(result.exception, FileError)
    assert source.read_text() == "mrn,age,ast,alt,plt\n"


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("mrn,age,ast,alt,plt\n")
    (tmp_path / "key").write_text("00" * 32)
    (tmp_path / "key").chmod(0o644)
    result = run(source, tmp_path / "out.csv")
    assert "chmod 600" in str(result.exception)


def test_an_empty_file_becomes_one_with_its_header(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("mrn,age,ast,alt,plt\n")
    result = run(source, target)
    assert result.exit_code == 0, repr(result.exception)
    assert target.read_text().replace('"', "") == "mrn,age,ast,alt,plt,fib4,risk\n"
