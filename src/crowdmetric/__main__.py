"""``python -m crowdmetric`` is the command ``crowdmetric``.

Ctrl-C is answered from the first line on: until the command line is loaded there is nothing to clean up, and a
traceback through Python's import machinery would help nobody.
"""

import os
import signal
import sys
from types import FrameType

__all__ = ["main"]


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"crowdmetric: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command that the process was given, and return its exit code."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if another handler is installed
    if usual:
        signal.signal(signal.SIGINT, _end)
    from crowdmetric.cli import main as run  # noqa: PLC0415 - not before the signal is looked after

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt:  # in the moment before or after the command line looks after the signal itself
        _end(signal.SIGINT, None)
        raise


if __name__ == "__main__":
    sys.exit(main())
