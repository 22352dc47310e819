"""howm.explore: a page on which a person plays a scene and watches a model imagine it."""

import webbrowser
from pathlib import Path

from howm.explorer.api import Api
from howm.explorer.server import ExplorerServer
from howm.explorer.stage import open_stage
from howm.models.world_model import WorldModel
from howm.worlds.world import World


def explore(
    run: str | WorldModel,
    *,
    world: World | None = None,
    against: str | WorldModel | None = None,
    data: Path | None = None,
    port: int = 0,
    browser: bool = True,
) -> None:
    """Serve the page of a run, or of a model of your own and its world, until Ctrl-C; port 0 is any free one."""
    with ExplorerServer(Api(open_stage(run, against, data, world)), port) as server:
        print(f"{server.url} (stop with Ctrl-C)", flush=True)
        if browser:
            webbrowser.open(server.url)
        server.serve_forever(poll_interval=0.1)
