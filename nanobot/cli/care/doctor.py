"""`nanobot doctor`: is it well, and if not, what is to be done."""

import argparse
import asyncio
import os
import sys

from nanobot.app import patient_of
from nanobot.doctor.checkup import examine
from nanobot.doctor.findings import Finding, as_json, exit_code, verdict
from nanobot.utils.text import printable


def run_doctor(args: argparse.Namespace) -> int:
    """Print what the checks find; 0 where all is well, 1 for warnings, 2 where something does not work."""

    async def look() -> list[Finding]:
        return await examine(await patient_of(os.environ, args.config or "", args.workspace or ""))

    found = asyncio.run(look())
    text = (
        as_json(found) if args.json else "\n".join([*(line for one in found for line in one.lines), "", verdict(found)])
    )
    sys.stdout.write(f"{printable(text)}\n")
    return exit_code(found)
