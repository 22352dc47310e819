"""What the cheats of `cheats` get, in both pools: `python tests/evaluation/run_cheats.py --json FILE`.

Each is refused or scores exactly as the honest model beneath it; anything else makes this command fail.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import cheats

from howm import Amounts, HowmError, Rollouts, __version__, evaluate, make_dataset

EPISODES, STEPS = 1_000, (1, 5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where to write what they get")
    options = parser.parse_args()
    data = make_dataset("shapes", 10, 5, amounts=Amounts(100, 2, EPISODES, max(STEPS)))
    honest = {kind: _scores(kind(data.spec), data) for kind in (cheats.Still, cheats.Knowing)}
    found: dict[str, dict[str, Any]] = {}
    for name, cheat in cheats.CHEATS.items():
        got: dict[str, Any]
        try:
            got = {"scores": _scores(cheat.make(data.spec, EPISODES), data)}
            fair = cheat.honest is not None and got["scores"] == honest[cheat.honest]
        except HowmError as error:
            got = {"refused": str(error)}
            fair = cheat.refused is not None and cheat.refused in str(error)
        found[name] = {"fair": fair, **got}
        print(name, found[name], file=sys.stderr, flush=True)
    total = {"tried": len(found), "refused": sum("refused" in one for one in found.values()),
             "fair": sum(one["fair"] for one in found.values())}  # fmt: skip
    scores = {kind.__name__: scores for kind, scores in honest.items()}
    text = json.dumps({"howm": __version__, "total": total, "honest": scores, "cheats": found}, indent=1)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0 if total["fair"] == total["tried"] else 1


def _scores(model: Any, data: Any) -> dict[str, dict[str, float]]:
    """MRR by pool and step."""
    scores = evaluate(model, Rollouts(data.eval), STEPS).model
    return {pool: {k: one.mrr for k, one in by_step.items()} for pool, by_step in scores.items()}


if __name__ == "__main__":
    sys.exit(main())
