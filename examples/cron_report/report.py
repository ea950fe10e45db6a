"""Writes down how full a disk is, a line at each firing: its nominal time, and the bytes that are used."""

import shutil
from pathlib import Path

REPORT = Path("disk-report.csv")


def handler(context, event):
    used = shutil.disk_usage(event.body.decode()).used
    with REPORT.open("a") as report:
        report.write(f"{event.timestamp.isoformat()},{used}\n")  # UTC, whatever timeZone says
    context.logger.info("%s: %d bytes are used", event.id, used)
