#!/usr/bin/env python3
"""Build wheels with the command inside: python3 wheels.py DIRECTORY [SYSTEM ...]

A SYSTEM is GOOS/GOARCH, one of those below; all of them without any. The command is compiled for each without cgo and
without symbols, so that one binary serves every C library of Linux. With --binary FILE it is that file, for this system.
It needs Go and hatchling, and no network but that for Go's modules.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TAGS = {
    "linux/amd64": "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
    "windows/amd64": "win_amd64",
    "windows/arm64": "win_arm64",
}


def this_system():
    """The system that runs this, as Go names it."""
    systems = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
    machines = {"x86_64": "amd64", "amd64": "amd64", "arm64": "arm64", "aarch64": "arm64"}
    return systems[sys.platform] + "/" + machines[platform.machine().lower()]


def compile_for(system, place):
    """Compile the command and return its file."""
    goos, goarch = system.split("/")
    binary = os.path.join(place, "moe.exe" if goos == "windows" else "moe")
    environment = {**os.environ, "GOOS": goos, "GOARCH": goarch, "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/moe"], cwd=HERE.parent,
                   env=environment, check=True)
    return binary


def wheel(system, binary, directory):
    """Build the wheel of a system and return its file."""
    environment = {**os.environ, "MOE_WHEEL_BINARY": os.path.abspath(binary), "MOE_WHEEL_TAG": TAGS[system]}
    out = subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", os.path.abspath(directory)],
                         cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return out.stdout.strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(TAGS))
    parser.add_argument("--binary", help="the command, compiled already, for this system")
    args = parser.parse_args()
    unknown = [system for system in args.systems if system not in TAGS]
    if unknown:
        parser.error(f"no system {unknown[0]}: want {', '.join(TAGS)}")
    if args.binary:
        print(wheel(this_system(), args.binary, args.directory))
        return
    for system in args.systems or TAGS:
        with tempfile.TemporaryDirectory(prefix="moe-wheel-") as place:
            print(wheel(system, compile_for(system, place), args.directory), flush=True)


if __name__ == "__main__":
    main()
