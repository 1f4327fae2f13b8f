"""Caches that nobody else can have written to; here others try."""

import grp
import io
import os
import pickle
import pwd
import shutil
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from shunter import caches, compiled
from shunter.errors import ModelError, RunError
from shunter.predictors import storing, trees
from shunter.predictors.fitted import QUANTILES
from shunter.run_folder import new_folder

STRANGER = 4001
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another account")


class Planted:
    """What runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def plant(folder: Path, mark: Path) -> None:
    """Put an index for every kernel there is into a folder, as another account."""
    compiled.copy_into(np.zeros(2), np.ones(2))  # so that there is at least this one
    for index in compiled.cache_folder().rglob("*.nbi"):
        copy = folder / compiled.sources_digest() / index.relative_to(compiled.cache_folder())
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(pickle.dumps(Planted(mark)))
    give_away(folder)


def give_away(folder: Path) -> None:
    for entry in (folder, *folder.rglob("*")):
        os.chown(entry, STRANGER, STRANGER, follow_symlinks=False)


@pytest.fixture
def shared(tmp_path):
    """A folder in which everybody may write, as /tmp is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def use_a_kernel(**environment: str) -> str:
    """Load and run one in a process of its own; returns where it keeps them."""
    code = (
        "import numpy as np; from shunter.compiled import copy_into, place;"
        "copy_into(np.zeros(2), np.ones(2)); print(place().folder)"
    )
    clean = {name: value for name, value in os.environ.items() if name not in ("SHUNTER_KERNELS", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@as_root
class TestAnotherAccountPlantsKernels:
    """Each of these ran the stranger's code when caches were trusted by their names."""

    @pytest.fixture
    def mark(self, tmp_path):
        path = tmp_path / "executed"
        yield path
        assert not path.exists()

    def test_in_the_temporary_folder(self, shared, mark):
        plant(shared / f"shunter-kernels-{os.getuid()}", mark)
        nowhere = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}
        used = use_a_kernel(TMPDIR=str(shared), **nowhere)
        assert Path(used).is_relative_to(shared)
        assert not Path(used).exists(), "a temporary cache goes with its process"

    def test_in_a_cache_that_is_theirs(self, shared, mark):
        plant(shared / "shunter" / "kernels", mark)
        give_away(shared / "shunter")
        assert not use_a_kernel(XDG_CACHE_HOME=str(shared)).startswith(str(shared))

    def test_behind_a_link(self, shared, tmp_path, mark):
        plant(shared / "theirs", mark)
        own = tmp_path / "own"
        own.mkdir()
        (own / "kernels").symlink_to(shared / "theirs")
        assert not use_a_kernel(SHUNTER_KERNELS=str(own / "kernels")).startswith(str(own))

    def test_in_a_folder_of_ours_that_others_could_write_to(self, tmp_path, mark):
        folder = tmp_path / "open" / compiled.sources_digest()
        plant(tmp_path / "open", mark)
        for entry in (tmp_path / "open", folder):
            os.chown(entry, 0, 0)
        assert not use_a_kernel(SHUNTER_KERNELS=str(tmp_path / "open")).startswith(str(folder))


class TestPrivate:
    def test_makes_folders_for_this_account_alone(self, tmp_path):
        old = os.umask(0)
        try:
            made = caches.private(tmp_path / "a" / "b")
        finally:
            os.umask(old)
        assert [made.stat().st_mode & 0o777, made.parent.stat().st_mode & 0o777] == [0o700, 0o700]
        assert caches.private(made) == made

    @pytest.mark.parametrize("place", ["b", "."])
    def test_refuses_where_others_may_write(self, tmp_path, place):
        folder = tmp_path / "a" / "b"
        folder.mkdir(parents=True)
        (tmp_path / "a" / place).chmod(0o777)
        with pytest.raises(caches.NotPrivateError, match="not used"):
            caches.private(folder)

    def test_refuses_links_and_files(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        (tmp_path / "file").touch()
        for name in ("link", "file"):
            with pytest.raises(caches.NotPrivateError, match="must be a folder"):
                caches.private(tmp_path / name)

    @as_root
    def test_refuses_what_is_not_ours(self, tmp_path):
        folder = caches.private(tmp_path / "a")
        (folder / "x").touch()
        os.chown(folder / "x", STRANGER, STRANGER)
        with pytest.raises(caches.NotPrivateError, match="another account could have written it"):
            caches.private(folder)

    @pytest.mark.parametrize("name", ["part", "part/one.nbi"])
    def test_refuses_what_others_may_write_inside(self, tmp_path, name):
        folder = caches.private(tmp_path / "a")
        (folder / "part").mkdir()
        (folder / "part" / "one.nbi").touch()
        folder.chmod(0o755)
        (folder / name).chmod(0o777)
        with pytest.raises(caches.NotPrivateError, match="another account could have written it"):
            caches.private(folder)

    @as_root
    def test_accepts_what_root_made_above(self, tmp_path):
        assert caches.private(tmp_path / "a" / "b").is_dir()

    def test_without_a_home_names_the_remedy(self, monkeypatch):
        for name in ("XDG_CACHE_HOME", "SHUNTER_KERNELS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
        with pytest.raises(caches.NotPrivateError, match="SHUNTER_KERNELS"):
            caches.user_folder("kernels", "SHUNTER_KERNELS")


ACL_USER, ACL_GROUP, ACL_MASK = 0x02, 0x08, 0x10


def allow(entry: Path, kind: str, tag: int, who: int, mask: int = 7) -> None:
    """What ``setfacl -m u:WHO:rwx`` does, with ``-d`` for the default list."""
    nobody = 2**32 - 1
    owner, group, others = (0x01, 7, nobody), (0x04, 0, nobody), (0x20, 0, nobody)
    entries = (owner, (tag, 7, who), group, (ACL_MASK, mask, nobody), others)
    if tag == ACL_GROUP:  # they are kept in the order of their tags
        entries = (owner, group, (tag, 7, who), (ACL_MASK, mask, nobody), others)
    try:
        os.setxattr(entry, kind, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries))
    except OSError:
        pytest.skip("this file system has no access control lists")


class TestAccessControlLists:
    """The group is the account's own, so its mode bits, which show what a list allows, are no sign of others."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(caches, "_own_group", lambda gid: gid == os.getegid())
        folder = caches.private(tmp_path / "a" / "b")
        (folder / "one.nbi").touch(0o600)
        return folder

    @pytest.mark.parametrize("tag", [ACL_USER, ACL_GROUP])
    @pytest.mark.parametrize("place", [".", "..", "one.nbi"])
    def test_others_that_they_name_are_others(self, folder, place, tag):
        assert caches.private(folder) == folder
        allow(folder / place, caches.ACCESS, tag, STRANGER)
        with pytest.raises(caches.NotPrivateError, match="not used"):
            caches.private(folder)
        assert not caches.trusted(folder, frozenset({os.geteuid(), caches.ROOT}))

    def test_the_remedy_helps(self, folder):
        allow(folder.parent, caches.ACCESS, ACL_USER, STRANGER)
        with pytest.raises(caches.NotPrivateError, match="chmod go-w") as refused:
            caches.private(folder)
        subprocess.run(str(refused.value).partition("run: ")[2], shell=True, check=True)
        assert caches.private(folder) == folder

    def test_lists_for_what_will_be_made_there(self, folder):
        allow(folder, caches.DEFAULT, ACL_USER, STRANGER)
        with pytest.raises(caches.NotPrivateError, match="not used"):
            caches.private(folder)

    def test_a_new_folder_takes_none_over(self, tmp_path):
        allow(tmp_path, caches.DEFAULT, ACL_USER, STRANGER)
        made = caches.private(tmp_path / "a" / "b")
        assert os.listxattr(made) == []

    def test_lists_that_let_no_other_account_write(self, folder):
        allow(folder, caches.ACCESS, ACL_USER, STRANGER, mask=5)
        (folder / "one.nbi").chmod(0o600)
        allow(folder / "one.nbi", caches.ACCESS, ACL_USER, os.geteuid())
        assert caches.private(folder) == folder

    def test_others_can_replace_what_is_in_their_folder(self, folder):
        assert not caches.replaceable(folder)
        allow(folder, caches.ACCESS, ACL_USER, STRANGER)
        assert caches.replaceable(folder)


class TestInstalledKernels:
    @pytest.fixture
    def installed(self, tmp_path, monkeypatch):
        folder = tmp_path / "installed"
        (folder / "part").mkdir(parents=True)
        (folder / "part" / "one.nbi").write_text("compiled")
        monkeypatch.setattr(compiled, "installed_folder", lambda: folder)
        return folder

    def test_a_new_cache_begins_with_them(self, tmp_path, installed):
        made = compiled._prepared(tmp_path / "cache")
        assert (made / "part" / "one.nbi").read_text() == "compiled"
        assert made.stat().st_mode & 0o777 == 0o700

    def test_what_was_compiled_since_stays(self, tmp_path, installed):
        made = compiled._prepared(tmp_path / "cache")
        (made / "part" / "one.nbi").write_text("mine")
        assert (compiled._prepared(tmp_path / "cache") / "part" / "one.nbi").read_text() == "mine"

    @as_root
    def test_not_if_a_stranger_could_have_written_them(self, tmp_path, installed):
        give_away(installed / "part")
        assert not list(compiled._prepared(tmp_path / "cache").iterdir())


def test_only_old_kernels_are_forgotten(tmp_path):
    for name in ("0123456789abcdef", "my thesis", "fedcba9876543210"):
        (tmp_path / name).mkdir()
    for name in ("0123456789abcdef", "my thesis"):
        os.utime(tmp_path / name, (0, 0))
    compiled._prepared(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"my thesis", "fedcba9876543210", compiled.sources_digest()}


def test_files_in_the_present_folder_are_not_imported(tmp_path):
    """Libraries import what they can do without, and would find it there."""
    for name in ("lightgbm", "interpret", "tbb", "yaml", "IPython", "pandas", "scipy", "cupy", "coverage"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/executed-{name}', 'w')\n")
    script = "from shunter.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", script, "simulate", "synthetic:jobs=3", "-c", "1x8", "-p", "fifo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("executed-*"))


# ------------------------------------------------------------------------------------------- models


def small_model() -> storing.Fitted:
    growing = trees.Builder()
    root = growing.add(0.0, 0, 1.0)
    growing.roots.append(growing.join(root, growing.add(1.0), growing.add(2.0), growing.add(3.0)))
    levels = np.array(QUANTILES)
    beside = (np.zeros((2, 4)), levels, np.zeros(2), np.zeros((3, len(levels))))
    return storing.Fitted("gbm", {}, growing.grown(0.0), 0.0, 1.0, 10.0, *beside, 1, (0, 1), 1, 1, 0.1)


def changed(model: storing.Fitted, **parts: object) -> storing.Fitted:
    whole = {name: getattr(model.trees, name).copy() for name in trees.Trees.fields}
    for name, (place, value) in parts.items():
        whole[name][place] = value
    return storing.dataclasses.replace(model, trees=trees.Trees(**whole))


@pytest.mark.parametrize(
    "parts",
    [
        {"nodes": ((0, trees.LOWER), 0)},  # a circle
        {"nodes": ((0, trees.UPPER), 10**9)},
        {"nodes": ((0, trees.MISSING), -1)},
        {"nodes": ((0, trees.FEATURE), 10**6)},
        {"nodes": ((0, trees.FEATURE), -2)},
        {"roots": (0, 4)},
        {"value": (1, np.nan)},
        {"threshold": (0, np.nan)},
    ],
)
def test_a_model_that_would_lead_a_kernel_astray_is_refused(tmp_path, parts):
    storing.save(small_model(), tmp_path / "good.model")
    assert storing.load(tmp_path / "good.model").name == "gbm"
    storing.save(changed(small_model(), **parts), tmp_path / "bad.model")  # with a checksum that is right
    with pytest.raises(ModelError, match=r"bad\.model"):
        storing.load(tmp_path / "bad.model")


def test_a_model_with_pickled_parts_is_refused(tmp_path):
    content = io.BytesIO()
    np.savez(content, header=np.array([{}], dtype=object), checksum=np.zeros(1, np.uint8))
    (tmp_path / "bad.model").write_bytes(content.getvalue())
    with pytest.raises(ModelError, match="is not a model"):
        storing.load(tmp_path / "bad.model")


# ------------------------------------------------------------------------------------------- folders of others

YAML = "def safe_load(file): return dict(line.strip().split(': ') for line in file)"  # stands for PyYAML


@pytest.mark.parametrize("first", ["shunter.compiled", "shunter.arrays", "shunter.policies.themis", "shunter.world"])
def test_numba_takes_no_settings_from_the_present_folder(tmp_path, first):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "yaml.py").write_text(YAML)
    (tmp_path / ".numba_config.yaml").write_text("disable_jit: 1\nopt: 0\n")
    code = (
        f"import {first}, numba.core.config as config; config.reload_config();"
        "import yaml; print(config.DISABLE_JIT, int(config.OPT), yaml.safe_load.__module__)"
    )
    path = os.pathsep.join([str(tmp_path / "lib"), *filter(None, sys.path)])
    plain = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-P", "-c", code]
    said = subprocess.run(
        command,
        cwd=tmp_path,
        env=plain | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["0", "3", "yaml"]
    assert said.stderr == ""


def test_a_group_is_shared_if_it_is_the_first_of_another_account(monkeypatch):
    own = pwd.getpwuid(os.geteuid())
    group = grp.struct_group((own.pw_name, "x", own.pw_gid, []))
    other = pwd.struct_passwd(("guest", "x", own.pw_uid + 1, own.pw_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    for accounts, alone in (([own], True), ([own, other], False)):
        monkeypatch.setattr(pwd, "getpwall", lambda accounts=accounts: accounts)
        caches._own_group.cache_clear()
        assert caches._own_group(own.pw_gid) is alone
    caches._own_group.cache_clear()


def test_a_folder_that_others_replace_while_it_is_written_leads_nowhere_else(tmp_path):
    """Everybody may rename what is there; what we write must not follow a link to a folder of ours."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    for folder in (shared, home):
        folder.mkdir()
    shared.chmod(0o777)
    (home / "summary.json").write_text("mine")

    def written() -> None:
        with new_folder(shared / "run") as made:
            (there,) = shared.iterdir()
            there.rename(shared / "away")
            there.symlink_to(home)
            (made / "summary.json").write_text("new")

    with pytest.raises(RunError, match="someone has replaced"):
        written()
    assert (home / "summary.json").read_text() == "mine"
    assert not (shared / "run").exists()
    with new_folder(shared / "run") as made:
        (made / "summary.json").write_text("new")
    assert (shared / "run" / "summary.json").read_text() == "new"


def test_a_full_disk_keeps_nothing_and_stops_nothing(tmp_path):
    """Kernels that find no room are compiled again the next time, and a warning says so once."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system can't be mounted here")
    code = """
        from shunter.compiled import kernel
        from shunter import notices
        notices.problem.set(print)

        @kernel
        def twice(x):
            return 2 * x

        @kernel
        def four_times(x):
            return 2 * twice(x)

        open(sys.argv[1] + "/fill", "wb", buffering=0).write(bytes(2**17))
        print(four_times(3), twice(1.5))
    """
    (tmp_path.parent / "full_disk.py").write_text("import sys\n" + textwrap.dedent(code))
    try:
        done = subprocess.run(
            [sys.executable, str(tmp_path.parent / "full_disk.py"), str(tmp_path)],
            env={**os.environ, "SHUNTER_KERNELS": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
    assert done.returncode == 0, done.stderr
    warning, result = done.stdout.splitlines()
    assert warning.startswith(f"compiled kernels can't be kept in {tmp_path}: No space left on device; make room")
    assert result == "12 3.0"
