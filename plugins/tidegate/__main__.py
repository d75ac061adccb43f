"""``python -m tidegate``: the same operations without the scheduler."""

import sys

from tidegate.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
