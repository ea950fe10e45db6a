"""`async for`, a call per record, a commit a second: FILE BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""

import asyncio
import sys
from pathlib import Path

from bare import by_one, run

asyncio.run(run(by_one, *sys.argv[1:4], Path(sys.argv[4])))
