"""What a long run has done so far, so that one that was stopped goes on where it was.

Each piece of the table is kept beside the output when it is released, until the output is whole.
Kept are released rows and nothing else: no more than the output itself would hold. A piece counts
only for the very same run: the same file, plan, key, columns and version.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from rootguard.batch.columns import Mask, RecordBatch
from rootguard.batch.kernel import Kernel, ReleasedBatch

_KEEP, _ROWS = b"rootguard keep", b"rootguard rows"


class Pieces:
    """The pieces of one run, in a folder beside its output."""

    def __init__(self, target: Path, source: Path, run: Mapping[str, object]) -> None:
        self._folder = target.with_name(f".{target.name}.pieces")
        status = source.stat()
        content = {"size": status.st_size, "changed": status.st_mtime_ns, **run}
        text = json.dumps(content, sort_keys=True, default=str)
        self._run = hashlib.sha256(text.encode()).hexdigest()
        self.found = 0
        """How many pieces another run had done."""

    def begin(self) -> None:
        """Take up what is there of the same run; what is of another goes."""
        name = self._folder / "run"
        known = name.read_text() if name.is_file() else None
        if known != self._run:
            self.clear()
            self._folder.mkdir(mode=0o700)
            name.write_text(self._run)

    def release(self, number: int, kernel: Kernel, batch: RecordBatch, first: int) -> ReleasedBatch:
        """A piece as it was released before, else as the kernel releases it now."""
        made = self._read(number, kernel, batch)
        if made is None:
            made = kernel.release(batch, first)
            self._write(number, made, len(batch))
        else:
            self.found += 1
        return made

    def _read(self, number: int, kernel: Kernel, batch: RecordBatch) -> ReleasedBatch | None:
        path = self._folder / f"{number}.released"
        with suppress(OSError, pa.ArrowInvalid):
            released = _load(path)
            told = released.schema.metadata
            if int(told[_ROWS]) != len(batch):
                return None
            keep: Mask | None = None
            if _KEEP in told:
                bits = np.frombuffer(told[_KEEP], dtype=np.uint8)
                keep = np.unpackbits(bits, count=len(batch)).astype(np.bool_)
            return ReleasedBatch(
                batch=released.replace_schema_metadata(_without(told)),
                rejects=_load(path.with_suffix(".rejects")),
                keep=keep,
                gathered=kernel.gather(batch, keep),
            )
        return None

    def _write(self, number: int, made: ReleasedBatch, rows: int) -> None:
        told = {**(made.batch.schema.metadata or {}), _ROWS: str(rows).encode()}
        if made.keep is not None:
            told[_KEEP] = np.packbits(made.keep).tobytes()
        path = self._folder / f"{number}.released"
        _save(path.with_suffix(".rejects"), made.rejects)
        _save(path, made.batch.replace_schema_metadata(told))  # last: with it the piece is there

    def clear(self) -> None:
        """Remove all of them."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __repr__(self) -> str:
        return "<pieces>"


def _without(told: Mapping[bytes, bytes]) -> dict[bytes, bytes] | None:
    return {key: each for key, each in told.items() if key not in (_KEEP, _ROWS)} or None


def _load(path: Path) -> RecordBatch:
    with pa.memory_map(str(path)) as content, ipc.open_file(content) as reader:
        return reader.get_batch(0)


def _save(path: Path, batch: RecordBatch) -> None:
    draft = path.with_suffix(f"{path.suffix}.{os.getpid()}")
    try:
        with pa.OSFile(str(draft), "wb") as sink, ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)  # of a full disk, which it would keep full
