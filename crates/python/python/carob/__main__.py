"""Commands ``carob`` and ``carob-studies``, the same as the Rust programs."""

from __future__ import annotations

import signal
import sys

from ._carob import command


def main(program: str = "carob") -> int:
    """Run the command line of this process and return its exit code."""
    # Python's own handler would run only after the command returns, so Ctrl-C would have no effect.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command([program, *sys.argv[1:]])


def studies() -> int:
    """Run it as ``carob-studies``."""
    return main("carob-studies")


if __name__ == "__main__":
    sys.exit(main())
