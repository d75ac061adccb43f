"""``python -m tidegate``: the same operations without the scheduler."""

import os
import sys

from tidegate.adapters.server_probe import COMMAND_PATIENCE_SECONDS, Patience
from tidegate.cli.main import INTERRUPTED, main

if __name__ == "__main__":
    Patience.seconds = COMMAND_PATIENCE_SECONDS
    code = main()
    if code == INTERRUPTED:  # merges in threads are not waited for: whatever they do now, the next run makes good
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
