"""Pictures of what the models of a folder have learned."""

import base64
from dataclasses import dataclass
from pathlib import Path

from howm.errors import HowmError
from howm.report.results_folder import Results, ended
from howm.runs.result import setting_name

GOALS = 20  # to choose one from that is shown


@dataclass(frozen=True)
class Picture:
    title: str
    note: str
    png: bytes

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


# Pictures of what was learned.


def draw_pictures(folder: Path, results: Results) -> tuple[list[Picture], list[str]]:
    """Slots, bindings and predictions of one HOWM in each world, and why there are none of the others."""
    from howm.draw.figures import as_png, figures
    from howm.draw.plan import carry_out, choose_goal, film_strip
    from howm.evaluation.episodes import fresh_episodes
    from howm.planning.run import goal_sets
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import rebuild

    pictures, unseen = [], []
    for env in dict.fromkeys(run.world for run in results.grid):
        found = _model(folder, results, env)
        if found is None:
            continue
        path, whose = found
        try:
            checkpoint = load_checkpoint(path)
            model = rebuild(checkpoint)
            data = checkpoint.record.data
            drawn = figures(model, fresh_episodes(checkpoint, 10, 0, 100).unseen, 0, 10)
            if any(one.world == env for one in results.planning):
                goals = goal_sets(checkpoint, GOALS)[0]
                drawn["plan"] = film_strip(carry_out(model, goals, choose_goal(goals)))
        except HowmError as error:
            unseen.append(f"{results.world_title(env)}: {error}.")
            continue
        world = f"{results.world_title(env)}, N = {data.n}, K = {data.k}"
        scene = "an unseen scene" if data.n > data.k else "the one scene that exists"
        texts = {
            "rollout": f"Ten steps in {scene}: the truth above, below what the model predicts from the first frame and "
            "the actions alone.",
            "plan": f"A plan in {scene}, carried out without looking: the truth above, below what was imagined, and at "
            "the right the goal, which is all that the planner was given.",
            "binding": "Two frames, their slots, the binding M of actions to slots, the bound action, and the "
            "predicted and the true state lifted to all library objects.",
        }
        pictures += [
            Picture(f"{world}, {name}", f"{texts[name]} {whose}", as_png(drawn[name]))
            for name in texts
            if name in drawn
        ]
    return pictures, unseen


def _model(folder: Path, results: Results, env: str) -> tuple[Path, str] | None:
    """The checkpoint of a HOWM of this folder, or of one of the package for the same world, and whose it is."""
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import find_checkpoint, shipped

    runs = ended(results.of(env, method="howm"))
    for run in sorted(runs, key=lambda run: (run.n == run.k, run.k != 5, run.n, run.seed)):
        name = f"{setting_name(*run.setting)}/howm-seed{run.seed}"
        if (folder / "runs" / name).is_dir():
            return find_checkpoint(folder / "runs" / name), f"Of the run {name}."
    worlds = {(run.n, run.k) for run in runs}
    for name in shipped():
        data = load_checkpoint(find_checkpoint(name)).record.data
        if data.world == env and (data.n, data.k) in worlds:
            note = f"Of the model {name} that comes with the package: the runs of these results are not in this folder."
            return find_checkpoint(name), note
    return None
