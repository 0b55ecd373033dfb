"""Run notebooks with plain nbclient: ``nbclient_class.py AT_ONCE OUT NOTEBOOK...`` writes the executed ones to the folder OUT."""

import asyncio
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


async def main(at_once: int, out: Path, files: list[Path]) -> None:
    """Run all of them, some at a time."""
    places = asyncio.Semaphore(at_once)

    async def one(file: Path) -> None:
        async with places:
            notebook = nbformat.read(file, 4)
            await NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(file.parent)}}).async_execute()
            nbformat.write(notebook, out / file.name)

    await asyncio.gather(*map(one, files))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), [Path(one) for one in sys.argv[3:]]))
