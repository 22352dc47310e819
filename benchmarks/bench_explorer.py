"""How long the explorer takes for a step, its panels and a search, through HTTP on one core, for the shipped models.

python benchmarks/bench_explorer.py [--json results/explorer.json]
"""

import argparse
import http.client
import json
import os
import statistics
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

LIMIT = 50.0  # milliseconds that a step may take
STEPS = 100


def measure(name: str) -> dict[str, float]:
    """Milliseconds of a shipped model: median and 99th percentile of a step, medians of the panels, and of a scene."""
    from howm.explorer.api import Api
    from howm.explorer.server import ExplorerServer
    from howm.explorer.stage import open_stage

    with ExplorerServer(Api(open_stage(name))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection(*server.server_address)
        session: dict[str, str] = {}

        def ask(question: str, **asked: object) -> tuple[float, dict]:
            begin = time.perf_counter()
            body = json.dumps({**session, **asked})
            connection.request("POST", f"/api/{question}", body, {"Content-Type": "application/json"})
            said = connection.getresponse().read()
            return 1000 * (time.perf_counter() - begin), json.loads(said.splitlines()[-1])

        _, first = ask("new")
        session["session"] = first["session"]
        actions = ask("suggest", count=STEPS)[1]["actions"]
        times: dict[str, list[float]] = {"step": [], "inspect": [], "rank": []}
        for t, action in enumerate(actions, 1):
            times["step"].append(ask("step", action=action)[0])
            times["inspect"].append(ask("inspect", time=t)[0])
            times["rank"].append(ask("rank", time=t)[0])
        scenes = [ask("new")[0] for _ in range(10)]
        connection.close()
        search = http.client.HTTPConnection(*server.server_address)
        begin = time.perf_counter()
        search.request("POST", "/api/search", json.dumps(session), {"Content-Type": "application/json"})
        search.getresponse().read()
        seconds = time.perf_counter() - begin
        search.close()
        server.shutdown()
    found = {kind: statistics.median(some) for kind, some in times.items()}
    found |= {"step_99": sorted(times["step"])[98], "new_scene": statistics.median(scenes), "search": 1000 * seconds}
    return {kind: round(value, 2) for kind, value in found.items()}


def main() -> int:
    import torch

    from howm.runs.locate import shipped

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the milliseconds to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: measure(name) for name in shipped()}
    columns = ("step", "step_99", "inspect", "rank", "new_scene", "search")
    print(f"{'milliseconds':22s}", *(f"{column:>10s}" for column in columns))
    for name, times in found.items():
        print(f"{name:22s}", *(f"{times[column]:10.1f}" for column in columns))
    slow = [name for name, times in found.items() if times["step"] >= LIMIT]
    print(f"a step takes {LIMIT:.0f} ms or more: {', '.join(slow) or 'never'}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
