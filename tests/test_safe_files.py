"""How much of a file is read, and what is no file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shunter import safe_files
from shunter.errors import InputError, RunError
from shunter.parquet_pages import unpacked_bytes
from shunter.run_folder import new_folder
from shunter.safe_files import disk_errors, whole, write_parquet


def limits(folder: Path, lines: str, **values: str) -> list[int]:
    """What control groups allow that look like this; their files are named with ``__`` for a slash."""
    (folder / "cgroup").write_text(lines)
    for name, value in values.items():
        path = folder / "fs" / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    return sorted(safe_files._group_limits(folder / "cgroup", folder / "fs"))


def test_memory_is_what_the_control_groups_leave(tmp_path):
    found = limits(tmp_path, "0::/job/step\n", job__memory_max="4096", job__step__memory_max="max", memory_max="8192")
    assert found == [4096, 8192]


def test_memory_with_the_older_control_groups(tmp_path):
    lines = "5:cpu,cpuacct:/job\n4:memory:/job\n"
    found = limits(tmp_path, lines, memory__job__memory_limit_in_bytes="4096", cpu__job__memory_max="1")
    assert found == [4096]


def test_bounds_follow_the_memory(monkeypatch):
    assert safe_files.memory_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for memory, parsed, loaded in ((2**30, 2**28, 2**30), (2**36, int(2**36 / 40), 2**33)):
        monkeypatch.setattr(safe_files, "memory_bytes", lambda memory=memory: memory)
        assert (safe_files.most_parsed(), safe_files.most_loaded()) == (parsed, loaded)


def test_pipes_devices_and_folders_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", 2**43)
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    told = {
        "pipe": "is a pipe or a device",
        "zero": "is a pipe or a device",
        "long": "it holds more than",
        "odd": "text must be UTF-8",
        "none": "no such file; look elsewhere",
        ".": "is a folder",
    }
    for name, why in told.items():
        with pytest.raises(InputError, match=why):
            safe_files.text_of(tmp_path / name, InputError, "look elsewhere")
    (tmp_path / "text").write_text("gr\u00fcn")
    assert safe_files.text_of(tmp_path / "text", InputError) == "gr\u00fcn"


def full_disk(path: Path, write: Callable[[pl.DataFrame, Path], None]) -> None:
    """Write a table to a full disk."""
    path.symlink_to("/dev/full")
    write(pl.DataFrame({"x": range(1000)}), path)


@pytest.mark.parametrize("write", [write_parquet, pl.DataFrame.write_csv, pl.DataFrame.write_ndjson])
def test_a_table_on_a_full_disk_is_an_error_like_any_other(tmp_path, write):
    with (
        pytest.raises(RunError, match=r"runs\.table: can't be written: No space left on device"),
        whole(tmp_path / "runs.table", RunError) as part,
    ):
        full_disk(part, write)
    with (
        pytest.raises(RunError, match="run: can't be written: No space left on device; choose another folder"),
        new_folder(tmp_path / "run") as made,
    ):
        full_disk(made / "jobs.table", write)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_polars_stay_what_they_are():
    with pytest.raises(pl.exceptions.ColumnNotFoundError), disk_errors():
        pl.DataFrame({"x": [1]}).select("y")


def test_parquet_is_written_in_one_place():
    """Polars itself does not say that a disk is full."""
    home = Path(safe_files.__file__)
    writers = [path.name for path in home.parent.rglob("*.py") if ".write_parquet(" in path.read_text()]
    assert writers == [home.name]


DAMAGED = """
import sys
from pathlib import Path
import polars as pl
from shunter.safe_files import parquet_frame

file, refused = Path(sys.argv[1]), 0
table = pl.DataFrame({"name": [f"j{n}" if n % 3 else None for n in range(300)], "at": range(300)})
table.write_parquet(file, compression="uncompressed")
good = file.read_bytes()
assert parquet_frame(file, 2**20).equals(table)
for at in range(1500, 1620):
    file.write_bytes(good[:at] + b"\\x99" + good[at + 1 :])
    try:
        parquet_frame(file, 2**20)
    except (OSError, ValueError):
        refused += 1
print("refused" if refused else "read")
"""


def test_a_damaged_table_is_refused_and_does_not_end_the_process(tmp_path):
    """By polars, one of these asks for 2 EiB of memory, which ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED, str(tmp_path / "t.parquet")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr[-2000:]


@pytest.mark.parametrize("in_lists", [False, True])
def test_one_long_text_in_many_rows_is_not_spelled_out(tmp_path, in_lists):
    rows = 2000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 10**6]))
    column = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts) if in_lists else texts
    pq.write_table(pa.table({"user": column}), tmp_path / "bomb.parquet", compression="zstd", store_schema=False)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(safe_files.TooLargeError, match="holds more than 64 MiB"):
        safe_files.parquet_frame(tmp_path / "bomb.parquet", 2**26)
    assert pa.default_memory_pool().max_memory() - before < 2**28


def refused(path: Path) -> int:
    """The memory that it takes to refuse a file."""
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(safe_files.TooLargeError, match="holds more than 64 MiB"):
        safe_files.parquet_frame(path, 2**26)
    return pa.default_memory_pool().max_memory() - before


def test_many_columns_of_long_texts_are_not_spelled_out(tmp_path):
    """Each of them is within the bound by itself."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 30_000]))
    table = pa.table({f"name{at}": texts for at in range(20)})
    pq.write_table(table, tmp_path / "bomb.parquet", compression="zstd", store_schema=False)
    assert refused(tmp_path / "bomb.parquet") < 2**28


def test_one_wide_value_in_many_rows_is_not_spelled_out(tmp_path):
    wide = pa.array([b"x" * 10**6] * 500, pa.binary(10**6))
    options = {"use_dictionary": True, "dictionary_pagesize_limit": 2**30, "data_page_size": 2**30}
    pq.write_table(pa.table({"name": wide}), tmp_path / "bomb.parquet", compression="zstd", **options)
    del wide
    assert (tmp_path / "bomb.parquet").stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    with pytest.raises(safe_files.TooLargeError, match="holds more than 64 MiB"):
        safe_files.parquet_frame(tmp_path / "bomb.parquet", 2**26)
    assert pa.total_allocated_bytes() - before < 2**20


def varint(number: int, length: int = 0) -> bytes:
    """A whole number in Thrift's compact protocol; it may be longer than it needs to be."""
    number *= 2
    found = bytearray()
    while number or not found:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found += b"\x80" * (length - len(found))
    found[-1] &= 0x7F
    return bytes(found)


def test_a_footer_that_says_too_little_is_not_believed(tmp_path):
    path = tmp_path / "bomb.parquet"
    table = pa.table({"name": [letter * 10**7 for letter in "abcdefghijklmnop"]})
    plain = {"use_dictionary": False, "data_page_size": 1, "write_statistics": False, "store_schema": False}
    pq.write_table(table, path, compression="zstd", **plain)
    del table
    said = varint(pq.read_metadata(path).row_group(0).total_byte_size)
    content = path.read_bytes()
    assert said in content
    path.write_bytes(content.replace(said, varint(100, len(said))))
    assert pq.read_metadata(path).row_group(0).total_byte_size == 100
    assert refused(path) < 2**24


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
def test_what_pages_unpack_to_is_what_an_honest_footer_says(tmp_path, version, compression):
    path = tmp_path / "table.parquet"
    table = pa.table({"name": [f"job {at // 3}" for at in range(5000)], "at": range(5000), "lists": [[1, None]] * 5000})
    options = {"row_group_size": 2000, "data_page_size": 4096, "write_page_index": True}
    pq.write_table(table, path, compression=compression, data_page_version=version, **options)
    footer = pq.read_metadata(path)
    said = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
    with path.open("rb") as file:
        assert 0.95 * said < unpacked_bytes(file, footer, 2**40) < 1.05 * said


def test_texts_that_share_their_beginnings_are_refused(tmp_path):
    """A few kB of such a page stand for as much as anyone likes."""
    path, options = tmp_path / "table.parquet", {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    for version in ("1.0", "2.0"):
        pq.write_table(pa.table({"name": ["a" * 9999] * 99}), path, data_page_version=version, **options)
        with pytest.raises(OSError, match="DELTA_BYTE_ARRAY"):
            safe_files.parquet_frame(path, 2**26)


def test_decimal_numbers_as_bytes_are_refused(tmp_path):
    """One long value, repeated by a dictionary, would be spelled out for every row."""
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"name": ["a" * 9999] * 99}), path, store_schema=False)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    text, decimal = b"\x25\x00\x4c\x1c\x00\x00", b"\x25\x0a\x15\x00\x15\x4c"  # UTF8; 38 digits
    assert content[begin:].count(text) == 1
    footer = content[begin:-8].replace(text, decimal)
    path.write_bytes(content[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert pq.read_schema(path).field("name").type == pa.decimal128(38, 0)
    with pytest.raises(OSError, match="decimal numbers as bytes"):
        safe_files.parquet_frame(path, 2**26)


def test_a_damaged_header_of_a_page_is_refused_at_once(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"at": range(50)}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    for header in (
        b"\x1c" * 40,
        b"\x11" * 200,
        b"\x15" + b"\x80" * 40,
        b"\x15\x00\x15\x01\x15\x02\x00",
        b"\x19\xf1\xff\x7f",
    ):
        path.write_bytes(content[:4] + header + content[4 + len(header) :])
        with pytest.raises(OSError, match="header of a page"):
            safe_files.parquet_frame(path, 2**26)


def test_a_table_is_read_as_it_was_written(tmp_path):
    frame = pl.DataFrame({"text": ["a", None, "a"], "texts": [["b", "c"], [], None], "number": [[1], None, [2, 3]]})
    write_parquet(frame, tmp_path / "table.parquet")
    found = safe_files.parquet_frame(tmp_path / "table.parquet", 2**26)
    assert found.schema == frame.schema
    assert found.equals(frame)


def test_a_file_that_grows_while_it_is_read_is_bounded_too(monkeypatch):
    """A file of /proc says that it holds nothing, like one that has not grown yet."""
    path = Path("/proc/self/status")
    assert "Name:" in safe_files.text_of(path, InputError)
    monkeypatch.setattr(safe_files, "most_parsed", lambda: 10)
    with pytest.raises(InputError, match="it holds more than"):
        safe_files.text_of(path, InputError)
