"""`python -m gaq_middleware` is the command `gaq`."""

import sys

from gaq_middleware.cli import main

if __name__ == "__main__":
    sys.exit(main())
