"""Parquet sink: a folder with one file for each partition and range of offsets of a batch."""

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headrace.functions.events import Event, Span, spans_of
from headrace.functions.spark.temporary_folder import sweep, temporary_folder

_NEEDED = ("topic", "partition", "offset")
_TYPE_OF_TIMES, _MICROSECONDS = "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
# Up to here one task costs half of what a shuffle does; other cores have other workers' batches.
_FEW = 100_000
_FILE = re.compile(r"(\d+)-(\d+)\.parquet")


def write_parquet(df: DataFrame, folder: str | Path, events: Sequence[Event]) -> list[Path]:
    """Write the rows that `df` made of `events`, all events of the batch; return the files.

    `df` has the columns topic, partition and offset; a row that stands for several records has the lowest of
    their offsets. The files are FOLDER/topic=T/partition=P/FIRST-END.parquet, END excluded; any reader of
    Parquet folders gives topic and partition back as columns.

    A file is there whole or not at all. A batch that comes again replaces its files; where only some of its
    records come again (once its attempts are spent), they are there already, and nothing is written.

    Times are written as microseconds in UTC (TIMESTAMP_MICROS), unless the session has another
    `spark.sql.parquet.outputTimestampType`, which is set from then on.

    Spark's executors write, this process renames: both must see `folder` under the same path, on a local or
    shared file system whose rename is atomic. Object stores need another committer. Raises ValueError for a
    URL, for missing columns, and for rows of a partition that the batch has no event of; and Spark's errors.
    """
    root = _checked_folder(folder)
    entries = [_entry(root, span) for span in spans_of(events)]
    # Without rows there is nothing to write, but the folder has to exist for its readers.
    if not entries:
        sweep(root)
        return []
    if not all(entry.is_whole for entry in entries):
        # Offsets that a file outside of this batch keeps are left out, or their rows would be there twice.
        df = df.where(sql.expr(" OR ".join(entry.condition for entry in entries)))
    with temporary_folder(root) as temporary:
        written = temporary / "rows"
        try:
            _write(_by_entry(df, entries), written)
        except AnalysisException:
            _check_columns(df)
            raise
        _check_all_expected(written, entries)
        return [entry.file for entry in entries if entry.publish(written)]


def _by_entry(df: DataFrame, entries: "Sequence[_Entry]") -> DataFrame:
    """Bring all rows of an entry into one task, which writes one file of them."""
    records = sum(entry.span.end - entry.span.first for entry in entries)
    return df.coalesce(1) if records <= _FEW else df.repartition("topic", "partition")


@functools.lru_cache(maxsize=1)  # a worker has one session at a time
def _choose_type_of_times(session: SparkSession) -> None:
    """Set the type of times in Parquet files, unless somebody has.

    Spark's default is INT96, which other readers turn into nanoseconds: for them the year 1500 is 2084.
    """
    session.conf.set(_TYPE_OF_TIMES, session.conf.get(_TYPE_OF_TIMES, _MICROSECONDS) or _MICROSECONDS)


def _write(df: DataFrame, folder: Path) -> None:
    _choose_type_of_times(df.sparkSession)
    # The alias: sorted by the columns that df has, not by dropped ones of the same names.
    ordered = df.alias("rows").sortWithinPartitions(*_NEEDED)
    # 0 is no limit: a partition's rows must come as one file, since they get one name.
    ordered.write.option("maxRecordsPerFile", 0).partitionBy("topic", "partition").parquet(str(folder))


def _check_columns(df: DataFrame) -> None:
    """Raise ValueError for missing columns.

    Called after a write has failed only: to ask Spark for the columns sends it the rows once more.
    """
    if missing := [name for name in _NEEDED if name not in df.columns]:
        names = ", ".join(missing)
        raise ValueError(f"the rows have no column {names}, by which write_parquet names files") from None


@dataclass(frozen=True, slots=True)
class _Entry:
    """The file to write for `span`, and the files that it replaces."""

    root: Path
    span: Span
    is_whole: bool
    replaced: Sequence[Path]

    @property
    def folder(self) -> Path:
        return Path(f"topic={self.span.topic}") / f"partition={self.span.partition}"

    @property
    def file(self) -> Path:
        return self.root / self.folder / f"{self.span.first:020}-{self.span.end:020}.parquet"

    @property
    def condition(self) -> str:
        span = self.span
        place = f"topic = '{span.topic}' AND partition = {span.partition}"
        return f"({place} AND offset >= {span.first} AND offset < {span.end})"

    def publish(self, written: Path) -> bool:
        """Move the written file to its place; return whether there is one.

        The files that it replaces are deleted first: for a moment rows may be missing, but never twice there.
        """
        if self.span.first >= self.span.end:
            return False
        for path in self.replaced:
            path.unlink(missing_ok=True)
        parts = list((written / self.folder).glob("*.parquet"))
        if not parts:
            self.file.unlink(missing_ok=True)
            return False
        (part,) = parts
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # Files, not folders: a rename replaces a file atomically, but no folder that isn't empty.
        _sync(part)
        part.replace(self.file)
        _sync(self.file.parent)
        return True


def _entry(root: Path, span: Span) -> _Entry:
    """Plan the file for a span. Files inside the span are replaced; others keep what offsets they share."""
    whole, replaced = _Entry(root, span, is_whole=True, replaced=()), []
    first, end = span.first, span.end
    for path, old_first, old_end in _existing(whole.file.parent):
        # No offset in common.
        if old_end <= span.first or old_first >= span.end:
            continue
        if span.first <= old_first and old_end <= span.end:
            replaced.append(path)
        # Overlaps at the start or the end: the file keeps what it has, this batch writes the rest.
        elif old_first <= span.first:
            first = max(first, old_end)
        else:
            end = min(end, old_first)
    rest = Span(span.topic, span.partition, first, end)
    return _Entry(root, rest, rest == span, [path for path in replaced if path != whole.file])


def _existing(folder: Path) -> list[tuple[Path, int, int]]:
    try:
        found = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []  # and for no other error: files that can't be seen would stay beside new ones
    names = ((path, _FILE.fullmatch(path.name)) for path in found)
    return [(path, int(match[1]), int(match[2])) for path, match in names if match]


def _checked_folder(folder: str | Path) -> Path:
    if "://" in str(folder):
        raise ValueError(f"{folder} is no folder; write_parquet renames files, which takes a file system")
    return Path(folder).absolute()


def _check_all_expected(written: Path, entries: Sequence[_Entry]) -> None:
    found = {path.parent.relative_to(written) for path in written.glob("topic=*/partition=*/*.parquet")}
    # A row of another partition would be written under a name that no later batch replaces.
    if strangers := found - {entry.folder for entry in entries}:
        raise ValueError(f"the rows are of {min(map(str, strangers))}, which the batch has no event of")


def _sync(path: Path) -> None:
    """Sync a file or folder to disk: the ack that follows outlives a power cut, and so must the rows."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
