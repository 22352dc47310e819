"""Results of somebody who wants more than to be read."""

from pathlib import Path
from typing import Any

from test_tables import pools, result, save

SCRIPT = "\"'><script>window.ran=1</script><img src=x onerror=window.ran=1>"
FORMULA = "=HYPERLINK(1)"


def hostile_folder(folder: Path) -> Path:
    """All texts of a result that are not names, in all kinds of runs; names cannot hold such a thing."""
    bad: dict[str, Any] = {
        "method_title": f"{FORMULA}{SCRIPT}", "world_title": f"{FORMULA}{SCRIPT}",
        "unseen": f"{SCRIPT}|[x](javascript:ran)\n# x", "preset": SCRIPT,
        "versions": {SCRIPT: SCRIPT, "commit": SCRIPT}, "controls": {SCRIPT: pools(1.0)},
        "config": {"train": {"steps": 3, SCRIPT: SCRIPT}}, "data": {"hash": SCRIPT, "seed": 0, "split": SCRIPT},
    }  # fmt: skip
    save(folder, result(**bad))
    save(folder, result("own:Method", **bad, seed=1))
    save(folder, result("howm", variant="odd one", **bad, seed=2))
    save(folder / "negatives", result(variant="odd-way", **bad))
    save(folder / "ablation", result("howm", variant="odd-way", **bad))
    failed = {"failure": {"reason": SCRIPT, "stage": SCRIPT}, "status": "failed", "scores": {}, "gap": {}}
    save(folder, result("cswm-k", **bad | failed))
    return folder
