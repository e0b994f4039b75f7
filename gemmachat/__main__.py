"""`python -m gemmachat`."""

import sys

from gemmachat.cli import main

sys.exit(main())
