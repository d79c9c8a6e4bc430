"""``python -m crowdmetric`` is the command ``crowdmetric``."""

import sys

from crowdmetric.cli import main

if __name__ == "__main__":
    sys.exit(main())
