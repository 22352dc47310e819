"""Pictures of what the models of a folder have learned."""

import base64
from dataclasses import dataclass
from pathlib import Path

from howm.errors import HowmError
from howm.report.results_folder import Results, ended
from howm.runs.result import file_name

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
    """Slots, bindings and predictions of one run of each world, if it is in the folder; and why there are none."""
    from howm.draw.figures import as_png, figures
    from howm.draw.plan import carry_out, choose_goal, film_strip
    from howm.evaluation.episodes import fresh_episodes
    from howm.planning.run import goal_sets
    from howm.runs.checkpoint import load_checkpoint
    from howm.runs.locate import find_checkpoint, rebuild

    pictures, unseen = [], []
    for world in dict.fromkeys(run.world for run in results.grid):
        place = _run(folder, results, world)
        if place is None:
            continue
        try:
            checkpoint = load_checkpoint(find_checkpoint(place))
            model = rebuild(checkpoint)
            data = checkpoint.record.data
            drawn = figures(model, fresh_episodes(checkpoint, 10, 0, 100).unseen, 0, 10)
            if any(one.world == world for one in results.planning):
                goals = goal_sets(checkpoint, GOALS)[0]
                drawn["plan"] = film_strip(carry_out(model, goals, choose_goal(goals)))
        except HowmError as error:
            unseen.append(f"{results.world_title(world)}: {error}.")
            continue
        title = f"{results.world_title(world)}, N = {data.n}, K = {data.k}"
        scene = "an unseen scene" if data.n > data.k else "the one scene that exists"
        texts = {
            "rollout": f"Ten steps in {scene}: the truth above, below what the model predicts from the first frame and "
            "the actions alone.",
            "plan": f"A plan in {scene}, carried out without looking: the truth above, below what was imagined, and at "
            "the right the goal, which is all that the planner was given.",
            "binding": "Two frames, their slots, the binding M of actions to slots, the bound action, and the "
            "predicted and the true state lifted to all library objects.",
            "masks": "A frame, and the masks by which the model takes it apart.",
        }
        whose = f"Of the run {place.relative_to(folder / 'runs')}."
        pictures += [
            Picture(f"{title}, {name}", f"{texts[name]} {whose}", as_png(drawn[name]))
            for name in texts
            if name in drawn
        ]
    return pictures, unseen


def _run(folder: Path, results: Results, world: str) -> Path | None:
    """A run of a world that a sweep has left in its folder: of HOWM, and of the paper's sizes, where there is one."""
    runs = ended(results.of(world))
    for run in sorted(runs, key=lambda run: (run.method != "howm", run.n == run.k, run.k != 5, run.n, run.seed)):
        place = folder / "runs" / run.setting / f"{file_name(run.method)}-seed{run.seed}"
        if place.is_dir():
            return place
    return None
