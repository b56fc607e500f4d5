"""A process that exports or imports, and says how far it is, so that a test can kill it.

python -m tests.data.exchange.exporting_process export <store> <target>
python -m tests.data.exchange.exporting_process import <data set> <store>
"""

import sys
from pathlib import Path

from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.exchange.selection import Selection
from robotrl.data.store import EpisodeStore


def tell(done: int, total: int) -> None:
    print(done, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    action, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if action == "export":
        export_lerobot([Selection.of(EpisodeStore.open(source))], target, tell)
    else:
        import_lerobot(source, target, tell)
