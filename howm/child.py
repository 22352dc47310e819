"""A command of howm that does not outlive who started it: python -m howm.child PARENT ARGUMENTS.

A second sweep would otherwise meet the cells of a killed one in the same run. Linux only; elsewhere they go on.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):  # it ended before we asked to be told
        sys.exit("howm: the sweep has ended")

    from howm.cli import main

    sys.exit(main(sys.argv[2:]))
