"""A process that publishes, to be killed: reads `seq` numbers of a producer, answers what it was told.

    python -m tests.server.publishing_script FOLDER files|kafka [ADDRESS TOPIC]

Each line of its input is `log seq count`; each line of its output is the receipt, printed when the request is on disk.
"""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path

from penstock.server.publishing import FileMover, Inbox, KafkaMover, Moving, Producer, Published

MUTE, WRITTEN = "PENSTOCK_TEST_MUTE", "written"
"""Set, it tells nobody his receipt, only that there is one."""


async def answer(inbox: Inbox, line: str) -> None:
    log, name, seq, count = line.split()
    records = [
        json.dumps({"log": log, "name": name, "seq": int(seq), "n": n}).encode()
        for n in range(int(count))
    ]
    receipt = await inbox.publish(Published(log, records, Producer(name, 0, int(seq))))
    told = [log, name, int(seq), receipt.first, receipt.last, receipt.repeated]
    print(WRITTEN if MUTE in os.environ else json.dumps(told), flush=True)


async def serve(inbox: Inbox) -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    tasks = set()
    while line := await lines.get():
        task = asyncio.create_task(answer(inbox, line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def main() -> None:
    folder, kind, *where = sys.argv[1:]
    inbox = Inbox(Path(folder) / "inbox.db")
    mover = FileMover(Path(folder) / "published") if kind == "files" else KafkaMover(*where)
    moving = Moving(inbox, mover, pause=0.02)
    print("ready", flush=True)
    asyncio.run(serve(inbox))
    inbox.wait_released(inbox.last, 120)
    moving.close()
    inbox.close()


if __name__ == "__main__":
    main()
