"""Getting the public task files: by pip, or from a folder; only with the right hash, all or nothing."""

import hashlib
import json
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coevo.errors import ConfigError
from webarena import fetch as module
from webarena.cache import cache_dir
from webarena.cli import webarena
from webarena.configs import load_configs
from webarena.fetch import SOURCES, canonical_json, fetch, task_file

DATA = Path(__file__).parents[2] / "shared" / "data" / "webarena"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the public task files are not beside the repository"
)
CONTENTS = {"full": b'[{"task": 1}]', "lite": b"[2]"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("COEVO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder with packages of our own that pip takes for the index, and the sources that name them."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    sources = []
    for source in SOURCES:
        name = source.package.split("==")[0].replace("-", "_")
        with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as wheel:
            info = f"{name}-1.dist-info"
            wheel.writestr(source.member, CONTENTS[source.name])
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        digest = hashlib.sha256(CONTENTS[source.name]).hexdigest()
        sources.append(replace(source, package=f"{name}==1", sha256=digest))
    monkeypatch.setattr(module, "SOURCES", tuple(sources))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def copied(wheels, monkeypatch):
    """The same with a stand-in for pip that copies and takes no time."""

    def run(command, **options):
        (wheel,) = wheels.glob(f"{command[-1].split('==')[0]}-*.whl")
        shutil.copy(wheel, command[command.index("--dest") + 1])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module.subprocess, "run", run)
    return wheels


def test_the_cache_follows_the_environment(tmp_path, monkeypatch):
    assert cache_dir() == tmp_path / "cache" / "coevo" / "webarena"
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine" / "webarena"
    monkeypatch.delenv("COEVO_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "coevo" / "webarena"


def test_by_pip_and_then_not_again(wheels, monkeypatch):
    rows = fetch()
    assert [Path(row["path"]).read_bytes() for row in rows] == [CONTENTS["full"], CONTENTS["lite"]]
    assert [row["from"] for row in rows] == ["PyPI webarena_verified==1", "PyPI browsergym_webarenalite==1"]
    assert [Path(row["path"]) for row in rows] == [task_file("full"), task_file("lite")]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert [row["from"] for row in fetch()] == ["already there"] * 2


def test_a_damaged_file_is_fetched_again(copied):
    fetch()
    task_file("lite").write_bytes(b"[3]")
    assert [row["from"] for row in fetch()] == ["already there", "PyPI browsergym_webarenalite==1"]
    assert task_file("lite").read_bytes() == CONTENTS["lite"]


def test_another_content_is_refused_and_nothing_left(copied, monkeypatch):
    monkeypatch.setattr(module, "SOURCES", (replace(module.SOURCES[0], sha256="0" * 64),))
    with pytest.raises(
        ConfigError, match=r"from PyPI webarena_verified==1 has sha256 [0-9a-f]{64}, expected 000"
    ):
        fetch()
    assert not cache_dir().exists() or list(cache_dir().iterdir()) == []


def test_a_package_without_the_file(copied, monkeypatch):
    monkeypatch.setattr(module, "SOURCES", (replace(module.SOURCES[0], member="x.json"),))
    with pytest.raises(ConfigError, match=r"does not hold x.json"):
        fetch()


def test_without_network(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        fetch()
    assert str(caught.value).startswith(
        "could not download webarena-verified==1.2.3, which holds webarena.raw.json: ERROR"
    )
    assert "coevo webarena fetch --from DIR" in str(caught.value)


def test_from_a_folder_by_content(copied, tmp_path):
    folder = tmp_path / "given"
    folder.mkdir()
    for name, content in CONTENTS.items():
        (folder / f"my {name}.json").write_bytes(content)
    rows = fetch(tmp_path / "to", given=folder)
    assert [row["from"] for row in rows] == [str(folder / "my full.json"), str(folder / "my lite.json")]
    assert (tmp_path / "to" / "webarena_lite.raw.json").read_bytes() == CONTENTS["lite"]


def test_from_a_folder_that_has_them_not(tmp_path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(
        ConfigError, match=r"no file in .* is webarena.raw.json \(sha256 7b50386f.*other.json"
    ):
        fetch(given=tmp_path)
    with pytest.raises(ConfigError, match="is no folder"):
        fetch(given=tmp_path / "none")


def test_a_folder_without_them_is_told_even_if_they_are_there(copied, tmp_path):
    fetch()
    empty = tmp_path / "empty"
    empty.mkdir()
    done = CliRunner().invoke(webarena, ["fetch", "--from", str(empty)])
    assert done.exit_code == 1
    with pytest.raises(ConfigError) as caught:
        fetch(given=empty)
    for source in module.SOURCES:
        assert f"{source.file} (sha256 {source.sha256})" in str(caught.value)
    assert "looked at no *.json" in str(caught.value)
    assert f"webarena.raw.json and webarena_lite.raw.json are in {cache_dir()} already" in str(caught.value)


def test_a_folder_with_one_of_them_completes_the_other(copied, tmp_path):
    fetch()
    task_file("lite").unlink()
    folder = tmp_path / "half"
    folder.mkdir()
    (folder / "lite.json").write_bytes(CONTENTS["lite"])
    assert [row["from"] for row in fetch(given=folder)] == [
        f"already there (not in {folder})",
        str(folder / "lite.json"),
    ]
    task_file("full").unlink()
    with pytest.raises(
        ConfigError, match=r"is webarena.raw.json \(sha256 [0-9a-f]{64}\); looked at lite.json"
    ):
        fetch(given=folder)


def test_to_a_place_one_may_not_write(copied, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*: .*\n.*--to DIR"):
        fetch(tmp_path / "file" / "sub")


def test_files_by_name():
    with pytest.raises(ConfigError, match="no public task file 'light'\n  → use one of full, lite"):
        task_file("light")
    with pytest.raises(
        ConfigError, match=r"webarena_lite.raw.json is not there yet\n  → get it: coevo webarena fetch"
    ):
        task_file("lite")


def test_the_command(copied):
    done = CliRunner().invoke(webarena, ["fetch", "--json"])
    assert done.exit_code == 0, done.output
    assert [row["name"] for row in json.loads(done.stdout)] == ["full", "lite"]
    assert "full" in CliRunner().invoke(webarena, ["fetch"]).stdout


@needs_data
def test_the_pinned_hashes_are_those_of_the_public_files(tmp_path):
    rows = fetch(tmp_path, given=DATA)
    for row, source in zip(rows, SOURCES, strict=True):
        content = json.loads(Path(row["path"]).read_bytes())
        assert hashlib.sha256(canonical_json(content)).hexdigest() == source.canonical_sha256
        assert len(load_configs(row["path"])) == source.tasks
