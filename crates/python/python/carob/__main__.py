"""The command ``carob``: client, server, proxy and lab, as the Rust program of that name."""

from __future__ import annotations

import signal
import sys

from ._carob import command


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # Python would only note the signal until the command returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["carob", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
