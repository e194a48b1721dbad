"""``python -m moe_regression`` and the script ``moe``: the command itself."""

import os
import subprocess
import sys

from ._command import CommandNotFoundError, find


def main() -> int:
    """Run the command with the arguments of this program."""
    try:
        path = find()
    except CommandNotFoundError as err:
        print(f"moe: {err}", file=sys.stderr)
        return 69
    if os.name == "posix":
        os.execv(path, [path, *sys.argv[1:]])
    return subprocess.run([path, *sys.argv[1:]]).returncode


if __name__ == "__main__":
    sys.exit(main())
