"""A process to be killed: commits episodes one after the other and prints the id of each once it is acknowledged."""

import resource
import sys
from pathlib import Path

from robotrl.data.store import EpisodeStore
from robotrl.errors import StorageError
from tests import builders


def main(root: str, count: str, file_limit: str = "") -> None:
    store = EpisodeStore.create(Path(root), builders.spec())
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_limit), int(file_limit)))
    with store.writer() as writer:
        for seed in range(int(count)):
            episode = builders.episode(5, seed=seed, takeover=None)
            writer.on_episode(episode)
            print(episode.meta.episode_id, flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except StorageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
