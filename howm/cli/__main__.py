"""python -m howm.cli"""

import sys

from howm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
