"""The command `moe`: where it is, which version it is, and how it is run."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

SERIES = "0."  # of the released commands that this package was made for


class CommandNotFoundError(RuntimeError):
    """There is no command, or one of another version."""


class CommandError(ValueError):
    """The command refused, or failed; the text is its line.

    Attributes
    ----------
    code : int
        The exit code: 64 usage, 65 bad data or model, 69 plugin failed, 70 a defect, 77 plugin not trusted.
    """

    def __init__(self, line: str, code: int):
        super().__init__(line)
        self.code = code

    def __reduce__(self):
        return type(self), (self.args[0], self.code)


def find() -> str:
    """Return the path of the command: the package's own, else ``$MOE_BINARY``, else the one on ``PATH``.

    Raises
    ------
    CommandNotFoundError
        There is none, or it is of another version.
    """
    name = "moe.exe" if sys.platform == "win32" else "moe"
    own = Path(__file__).parent / "bin" / name
    path = str(own) if own.is_file() else os.environ.get("MOE_BINARY") or shutil.which("moe")
    if not path:
        raise CommandNotFoundError("there is no command moe: want it in $MOE_BINARY or on PATH")
    try:
        made = os.stat(path).st_mtime_ns
    except OSError as err:
        raise CommandNotFoundError(f"{path}: {err.strerror}; want the command moe in $MOE_BINARY") from None
    _check(path, made)
    return path


@functools.lru_cache(maxsize=8)
def _check(path: str, made: int) -> None:
    """Refuse a command of another series of versions; one that was built from a work tree has none."""
    try:
        out = subprocess.run([path, "version", "--json"], capture_output=True, text=True, timeout=60, check=True)
        version = json.loads(out.stdout)["version"].removeprefix("v")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError):
        raise CommandNotFoundError(f"{path}: it does not say its version, and is no command moe") from None
    if version != "(devel)" and not version.startswith(SERIES):
        raise CommandNotFoundError(f"{path}: version {version}, want {SERIES}x")


def run(args: list[str], *, stdin: str = "", accept: tuple[int, ...] = (0,), verbose: bool = False) -> str:
    """Run the command and return what it prints.

    An interrupt, as any exception, ends the command before it is passed on. With `verbose` its progress is shown: as a bar
    where standard error is a terminal, else, as in a notebook, by its lines.
    """
    shown = verbose and sys.stderr is not None
    terminal = shown and sys.stderr.isatty()
    command = [find(), *args] if shown else [find(), *args, "--quiet"]
    process = failed = None
    started = threading.Event()

    def start():
        nonlocal process, failed
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=None if terminal else subprocess.PIPE, text=True, encoding="utf-8")
        except BaseException as err:
            failed = err
        started.set()
    try:
        # In a thread, which no interrupt reaches: one that came while it starts would leave it running.
        threading.Thread(target=start).start()
        started.wait()
        if failed is not None:
            raise failed
        if shown and not terminal:
            out, err = _communicate(process, stdin, sys.stderr)
        else:
            out, err = process.communicate(stdin)
    except BaseException:
        started.wait(5)
        if process is not None:
            _end(process)
        raise
    if process.returncode in accept:
        return out
    lines = (err or "").strip().splitlines()
    line = lines[-1].removeprefix("moe: ") if lines else f"moe {args[0]} ended with exit code {process.returncode}"
    if process.returncode in (-2, 130):
        raise KeyboardInterrupt(line)
    raise CommandError(line, process.returncode)


def _communicate(process, stdin, to):
    """What `process.communicate` returns, with the lines of standard error passed on as they come."""
    lines, stream = [], process.stderr

    def read():
        with stream:
            for line in stream:
                lines.append(line)
                to.write(line)
    process.stderr = None
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    out, _ = process.communicate(stdin)
    reader.join()
    return out, "".join(lines)


def _end(process: subprocess.Popen) -> None:
    """End a process: by a request, then by force. It is not to be read any more."""
    process.terminate()
    try:
        process.wait(timeout=5)
    except BaseException:
        process.kill()
        process.wait()
