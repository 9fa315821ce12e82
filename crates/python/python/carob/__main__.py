"""Command ``carob``: client, server, proxy and lab, the same as the Rust program."""

from __future__ import annotations

import signal
import sys

from ._carob import command


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # Python's own handler would run only after the command returns, so Ctrl-C would have no effect.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["carob", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
