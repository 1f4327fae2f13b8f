"""The journal's file: who may read and write it, and whether it is still the one that was opened, and whole."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from shunter.errors import LiveError
from shunter.live.audit import entries
from shunter.live.journal import DONE, Journal
from shunter.live.journal_file import DamagedError, JournalError, ReplacedError
from shunter.live.levers import Order
from shunter.live.locks import held, lock_of, only_controller
from shunter.live.running import resume

NICE = Order("7", "nice", "-50", "0", "why")
NOBODY, GROUP = 65534, 60
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="plays another user, which only root can")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(value: int):
    before = os.umask(value)
    yield
    os.umask(before)


# ------------------------------------------------------------------------------------------- who may read and write it


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_all_files_are_for_the_owner_and_a_group_whatever_the_umask(tmp_path, mask):
    """A lock is for the owner alone: who may read it could hold it, and no controller would start."""
    path = tmp_path / "new" / "j.db"
    with umask(mask), only_controller(path), closing(Journal(path)) as book:
        book.intend(1, [NICE])
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["j.db", "j.db-shm", "j.db-wal", "j.db.controller", "j.db.copy"]
        assert {file.name: mode(file) for file in files} == {
            file.name: 0o600 if file.name == "j.db.controller" else 0o640 for file in files
        }
        assert mode(path.parent) & 0o007 == 0


def test_a_folder_in_which_a_group_could_put_a_log_of_sqlite_is_refused(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(LiveError, match="other users can replace files"):
        Journal(folder / "j.db")


def test_one_of_an_earlier_release_is_no_longer_read_by_everybody(tmp_path):
    path = tmp_path / "j.db"
    Journal(path).close()
    path.chmod(0o644)
    Journal(path).close()
    assert mode(path) == 0o640


@pytest.mark.parametrize("bits", [0o660, 0o642])
def test_one_that_others_could_write_is_not_trusted(tmp_path, bits):
    path = tmp_path / "j.db"
    Journal(path).close()
    path.chmod(bits)
    with pytest.raises(LiveError, match=f"other users can write it .mode {bits:o}.; .*chmod 640"):
        Journal(path)
    assert mode(path) == bits


def test_a_folder_where_others_could_replace_it_is_refused(tmp_path):
    tmp_path.chmod(0o1777)  # /tmp: they could put a file of theirs beside it before we do
    with pytest.raises(LiveError, match="put the journal into a folder that only you can write"):
        Journal(tmp_path / "j.db")
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o755)


@as_root
def test_a_journal_of_another_user_is_not_trusted_even_by_root(tmp_path):
    path = tmp_path / "j.db"
    Journal(path).close()
    os.chown(path, NOBODY, -1)
    with pytest.raises(LiveError, match=r"belongs to another user \(uid 65534\), whose journal is not trusted"):
        Journal(path)


@pytest.mark.parametrize("name", ["j.db.controller", "j.db.watchdog"])
def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(LiveError, match="must be a plain file"):
        held(tmp_path / "j.db", name.rpartition(".")[2])
    assert victim.read_text() == "precious"


def test_a_link_to_a_file_that_is_not_there_makes_that_file_and_no_other(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    Journal(tmp_path / "link.db").close()
    assert (tmp_path / "link.db").is_symlink()
    assert mode(tmp_path / "real.db") == 0o640


# ------------------------------------------------------------------------------------------- reading only


READ = """
import os, sys
from typer.testing import CliRunner
from shunter.cli.main import app

def audit(journal):
    return CliRunner().invoke(app, ["slurm", "audit", "--journal", journal, "--json"])

for journal in sys.argv[1], "/nowhere":
    audit(journal)  # another user may not be able to read the interpreter's own files
for journal in sys.argv[1:]:
    for group in 60, 65534:
        if os.fork() == 0:
            os.setgroups([group]); os.setgid(65534); os.setuid(65534)
            done = audit(journal)
            found = '"job": "7"' in done.stdout and '"state": "left alone"' in done.stdout
            os.write(1, f"{journal} {group} {done.exit_code} {found}\\n".encode())
            os._exit(0)
        os.wait()
"""


def journal_in(folder: Path, state: str) -> tuple[Path, Journal]:
    """One that a group may read, in a folder where the group can write nothing."""
    folder.mkdir(mode=0o750)
    path = folder / "j.db"
    Journal(path).close()
    for each in (folder, path):
        os.chown(each, 0, GROUP)
    book = Journal(path)
    book.intend(1, [NICE])
    book.leave_alone("8", "someone set its priority to 9")
    if state != "open":
        kept = {file: file.read_bytes() for file in folder.iterdir()}
        book.close()
        for file, data in kept.items() if state == "crashed" else ():
            file.write_bytes(data)
            file.chmod(0o640)
            os.chown(file, 0, GROUP)
    return path, book


@as_root
def test_audit_needs_to_read_the_file_and_nothing_else(lab_folder):
    """A member of its group reads it in any state; others read nothing."""
    made = [journal_in(lab_folder / state, state) for state in ("closed", "open", "crashed")]
    before = sorted(lab_folder.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", READ, *(str(path) for path, _ in made)],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        line for path, _ in made for line in (f"{path} {GROUP} 0 True", f"{path} {NOBODY} 2 False")
    ]
    assert sorted(lab_folder.rglob("*")) == before
    for _, book in made:
        book.close()


def test_what_is_only_read_is_not_changed(tmp_path):
    path = tmp_path / "j.db"
    Journal(path).close()
    before = path.read_bytes()
    with closing(Journal.reading(path)) as book:
        assert book.acts() == []
        with pytest.raises(JournalError):
            book.note("x", "y")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["j.db"]


# ------------------------------------------------------------------------------------------- versions


def of_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"pragma user_version = {version}")
        file.execute("drop table identity")
        file.commit()


def test_one_without_an_id_gets_one_and_keeps_what_it_knows(tmp_path):
    path = tmp_path / "j.db"
    with closing(Journal(path)) as book:
        book.settle(book.intend(1, [NICE])[0], DONE)
    of_version(path, 1)
    with closing(Journal.reading(path)) as book:
        assert book.id == ""
        assert book.in_force()
    with closing(Journal(path)) as book, closing(Journal(path)) as again:
        assert len(book.id) == 8
        assert book.id == again.id
        assert book.in_force()


def test_one_of_a_release_to_come_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "j.db"
    Journal(path).close()
    of_version(path, 9)
    for opened in (Journal, Journal.reading):
        with pytest.raises(LiveError, match=r"version 9.*use the newer release, or name another file"):
            opened(path)


# ------------------------------------------------------------------------------------------- gone, replaced, damaged


def removed(path: Path) -> None:
    path.unlink()


def swapped(path: Path) -> None:
    other = path.with_name("other.db")
    Journal(other).close()
    other.replace(path)


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def written_over(path: Path) -> None:
    """The same file with another journal in it."""
    other = path.with_name("other.db")
    Journal(other).close()
    with closing(sqlite3.connect(other)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)


@pytest.mark.parametrize("act", [removed, swapped, moved, written_over])
def test_nothing_is_intended_in_a_journal_that_is_gone(tmp_path, act: Callable[[Path], None]):
    path = tmp_path / "j.db"
    with closing(Journal(path)) as book:
        book.intend(1, [NICE])
        act(path)
        for refused in (book.confirm, lambda: book.intend(1, [NICE])):
            with pytest.raises(ReplacedError, match="put it back, or give the jobs back with 'shunter slurm release"):
                refused()


def test_one_that_was_put_back_is_used_again(tmp_path):
    path = tmp_path / "j.db"
    with closing(Journal(path)) as book:
        moved(path)
        with pytest.raises(ReplacedError):
            book.note("x", "y")
        path.with_name("elsewhere.db").rename(path)
        book.note("x", "y")
        book.confirm()


def test_a_copy_is_used_only_after_an_operator_says_so(tmp_path, monkeypatch):
    path, copy = tmp_path / "j.db", tmp_path / "copy.db"
    with closing(Journal(path)) as book:
        book.check_copied()
    shutil.copy(path, copy)
    with closing(Journal(path)) as book, closing(Journal(copy)) as other:
        assert book.id == other.id
        book.check_copied()
        with pytest.raises(LiveError, match=r"is a copy of a journal, or was moved or restored; .*slurm resume"):
            other.check_copied()
        assert not resume(other)
        other.check_copied()
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")  # a machine that was cloned
        with pytest.raises(LiveError, match="is a copy of a journal"):
            book.check_copied()


def junk(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scratched(path: Path) -> None:
    """The pages of the acts, but not the first one."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


@pytest.mark.parametrize("act", [junk, halved, scratched])
def test_a_damaged_one_is_refused_with_the_way_back(tmp_path, act: Callable[[Path], None]):
    path = tmp_path / "j.db"
    with closing(Journal(path)) as book:
        for number in range(300):
            book.note("x", f"{number}" * 40)
    act(path)
    way_back = r"damaged: .*release --from-marks', move the file away, and start again"
    with pytest.raises(DamagedError, match=way_back), closing(Journal(path)) as book:
        book.check()


def test_locks_lie_beside_what_a_link_names(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "j.db")
    assert lock_of(tmp_path / "link.db", "controller") == lock_of(tmp_path / "j.db", "controller")


@as_root
def test_a_folder_that_others_can_replace_is_no_place_for_a_journal(tmp_path) -> None:
    """The folder itself is private; the one above it belongs to somebody else."""
    folder = tmp_path / "theirs" / "mine"
    folder.mkdir(parents=True, mode=0o700)
    Journal(folder / "journal.db").close()
    os.chown(tmp_path / "theirs", NOBODY, GROUP)
    with pytest.raises(LiveError, match="other users can replace its folder"):
        Journal(folder / "journal.db")


# ------------------------------------------------------------------------------------------- written by others

ENDLESS = "(with recursive n(i) as (select 1 union all select i + 1 from n) select i, 1.0, 'x' from n)"


@pytest.mark.parametrize(
    "harm",
    [
        f"drop table hands_off; create view hands_off (handle, at, why) as select * from {ENDLESS}",
        "create trigger t after insert on events begin delete from acts; end",
        "update acts set at = 'soon'",
        "update acts set at = 1e300",
        "update acts set handle = x'00ff'",
        "insert into events (at, kind, text) values ('then', 'stop', 'x')",
    ],
)
def test_a_journal_that_others_have_written_is_refused_by_its_contents(tmp_path, harm: str) -> None:
    path = tmp_path / "journal.db"
    with closing(Journal(path)) as book:
        book.intend(1, [NICE])
    with closing(sqlite3.connect(path)) as file:
        file.executescript(harm)
    with pytest.raises(DamagedError, match="not a journal, or it is damaged"), closing(Journal.reading(path)) as book:
        entries(book)
