"""Office files, HTML and EPUB as PDFs, made by LibreOffice where it is installed.

It runs in ``office_jail``: no network, no files but its own folder, limits on time and memory. Its settings
forbid macros and links as well. A PDF is made once and kept, because every process that renders or shows a
page opens the file again; what is kept is named after the content, and the oldest go first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pypdfium2 as pdfium

from vsplade.cache import cache_folder
from vsplade.errors import PageError
from vsplade.pages import office_epub
from vsplade.pages.limits import Limits
from vsplade.pages.naming import suffix
from vsplade.pages.pdf import save_pdf

KEPT_BYTES = 1 << 30
"""PDFs that are kept, all together."""
STARTS = 3
"""LibreOffice ends with a status of its own after it made its settings, and wants to be started again."""
_AGAIN = (79, 81)
_HTML = "HTML (StarWriter)"
_FILTERS = {
    ".docx": "MS Word 2007 XML", ".doc": "MS Word 97", ".odt": "writer8", ".rtf": "Rich Text Format",
    ".xlsx": "Calc MS Excel 2007 XML", ".xls": "MS Excel 97", ".ods": "calc8",
    ".pptx": "Impress MS PowerPoint 2007 XML", ".ppt": "MS PowerPoint 97", ".odp": "impress8",
}  # fmt: skip
"""What a file is called decides what it is read as."""
_SCRIPTING = "/org.openoffice.Office.Common/Security/Scripting"
_SETTINGS = (
    (_SCRIPTING, "DisableMacrosExecution", "true"),
    (_SCRIPTING, "MacroSecurityLevel", "3"),
    (_SCRIPTING, "BlockUntrustedRefererLinks", "true"),
    ("/org.openoffice.Office.Writer/Content/Update", "Link", "2"),
    ("/org.openoffice.Office.Calc/Content/Update", "Link", "2"),
)


@cache
def _program() -> str | None:
    """LibreOffice itself; the script of that name would leave it running when it is ended."""
    for name in ("soffice", "libreoffice"):
        if (found := shutil.which(name)) is not None:
            inner = Path(os.path.realpath(found)).with_name("soffice.bin")
            if inner.is_file():
                return str(inner)
    return None


@cache
def missing_office() -> str | None:
    """What has to be there before office files can be read; None: all is."""
    if sys.platform != "linux":
        return "Linux, where LibreOffice can be kept apart; save it as PDF instead"
    from vsplade.pages.office_jail import landlock_version

    if not landlock_version():
        return (
            "Linux 5.13 or newer with Landlock, where LibreOffice can be kept apart; save it as PDF instead"
        )
    return None if _program() else "LibreOffice, which is not installed; install it, or save the file as PDF"


def to_pdf(path: str, limits: Limits) -> str:
    """The path of a PDF with the same pages; nobody but this module may change it."""
    if (missing := missing_office()) is not None:
        raise PageError(f"needs {missing}")
    with open(path, "rb") as stream:
        name = hashlib.file_digest(stream, "sha256").hexdigest()
    kept = _folder() / f"{name}{suffix(path)}.pdf"
    if kept.exists():
        os.utime(kept)
        return str(kept)
    _check_archive(path, limits)
    with tempfile.TemporaryDirectory(prefix="office-", dir=kept.parent) as work:
        made = _convert(path, Path(work), limits)
        os.replace(made, kept)
    _forget_oldest(kept.parent)
    return str(kept)


@cache
def _folder() -> Path:
    """For this user alone. Where no folder of his can be written, one for this process."""
    folder = cache_folder() / "office"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="vsplade-office-"))


def _forget_oldest(folder: Path) -> None:
    found = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in folder.glob("*.pdf"))
    total = sum(size for _, size, _ in found)
    for _, size, file in found[:-1]:
        if total <= KEPT_BYTES:
            break
        file.unlink(missing_ok=True)
        total -= size


def _check_archive(path: str, limits: Limits) -> None:
    """What an archive says it unpacks to; if it lies, the limits on LibreOffice hold."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        size = sum(item.file_size for item in archive.infolist())
    if size > limits.max_bytes:
        raise PageError(f"unpacks to {size:,} bytes, above the limit of {limits.max_bytes:,}")


def _convert(path: str, work: Path, limits: Limits) -> Path:
    if suffix(path) == ".epub":
        parts = office_epub.unpack(path, work / "book")
        _run(work, parts, _HTML, limits)
        return _joined([work / "out" / f"{part.stem}.pdf" for part in parts], work / "book.pdf")
    copy = work / f"document{suffix(path)}"
    shutil.copyfile(path, copy)
    _run(work, [copy], _FILTERS.get(suffix(path), _HTML), limits)
    return work / "out" / "document.pdf"


def _run(work: Path, files: list[Path], read_as: str, limits: Limits) -> None:
    _write_settings(work)
    program = _program()
    assert program is not None  # asked before
    seconds = max(1, int(limits.max_seconds))
    jail = str(Path(__file__).with_name("office_jail.py"))
    command = [
        sys.executable, "-I", jail, str(seconds), str(limits.memory), str(limits.max_bytes), str(work),
        program, "--headless", "--norestore", "--nolockcheck", "--nodefault", "--nologo",
        f"-env:UserInstallation={(work / 'settings').as_uri()}", f"--infilter={read_as}",
        "--convert-to", "pdf", "--outdir", str(work / "out"), *map(str, files),
    ]  # fmt: skip
    # Nothing of this process's environment: it may hold keys and passwords.
    known = {"HOME": str(work), "TMPDIR": str(work), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    for _ in range(STARTS):
        try:
            ended = subprocess.run(
                command, env=known, cwd=work, capture_output=True, timeout=0.9 * limits.max_seconds
            )
        except subprocess.TimeoutExpired:
            raise PageError(
                f"took LibreOffice longer than {0.9 * limits.max_seconds:g} seconds; raise --max-seconds"
            ) from None
        finally:
            _remove_socket(work)
        if ended.returncode not in _AGAIN:
            break
    if ended.returncode or not any((work / "out").glob("*.pdf")):
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise PageError(f"could not be read by LibreOffice: {''.join(said) or 'it is damaged or protected'}")


def _remove_socket(work: Path) -> None:
    """LibreOffice makes one in /tmp, named after its settings, and may remove nothing there."""
    digest = hashlib.md5((work / "settings").as_uri().encode("utf-16-le"), usedforsecurity=False).digest()
    for left in Path("/tmp").glob(f"OSL_PIPE_*_SingleOfficeIPC_{''.join(f'{byte:x}' for byte in digest)}"):
        left.unlink(missing_ok=True)


def _write_settings(work: Path) -> None:
    user = work / "settings" / "user"
    user.mkdir(parents=True)
    items = "".join(
        f'<item oor:path="{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
        for path, name, value in _SETTINGS
    )
    (user / "registrymodifications.xcu").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
        'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"{items}</oor:items>",
        "utf-8",
    )


def _joined(parts: list[Path], target: Path) -> Path:
    whole = pdfium.PdfDocument.new()
    for part in parts:
        if part.exists():  # a chapter without anything to show has none
            chapter = pdfium.PdfDocument(part)
            whole.import_pages(chapter)
            chapter.close()
    save_pdf(whole, target)
    whole.close()
    return target
