"""Object-oriented world models and an honest measure of their compositional generalization."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from howm.version import __version__
from howm.worlds.envs.registration import register_envs

# Where each public name lives; a module loads when its name is first used, so that `import howm` stays cheap.
_PUBLIC = {
    "HowmError": "errors",
    "LibraryObject": "worlds.library",
    "ObjectLibrary": "worlds.library",
    "SceneSet": "worlds.scenes",
    "SceneSplit": "worlds.scenes",
    "seeded_split": "worlds.scenes",
    "split_scenes": "worlds.scenes",
    "Grid": "worlds.grid",
    "World": "worlds.world",
    "WORLDS": "worlds.registry",
    "make_world": "worlds.registry",
    "check_world": "worlds.check",
    "Amounts": "data.dataset",
    "Dataset": "data.dataset",
    "Episodes": "data.episodes",
    "make_dataset": "data.dataset",
    "load_dataset": "data.storage",
    "save_dataset": "data.storage",
    "PictureBatch": "data.transitions",
    "SlotBatch": "data.transitions",
    "Privileged": "data.privileged",
    "Rollouts": "data.rollouts",
    "Transitions": "data.transitions",
    "State": "models.world_model",
    "SlotState": "models.world_model",
    "WorldModel": "models.world_model",
    "Extractor": "models.extractors.base",
    "Metric": "models.distance",
    "imagine": "models.imagine",
    "check_extractor": "models.check",
    "check_model": "models.check",
    "WorldSpec": "worlds.spec",
    "EXTRACTORS": "models.extractors.registry",
    "METHODS": "models.registry",
    "Method": "models.registry",
    "RunConfig": "runs.config",
    "TrainConfig": "runs.config",
    "configure": "runs.config",
    "load": "runs.locate",
    "unseen_scenes": "runs.locate",
    "FitOptions": "training.options",
    "fit": "training.fit",
    "train_run": "training.run",
    "evaluate": "evaluation.evaluate",
    "evaluate_run": "evaluation.run",
    "RunResult": "runs.result",
    "ImaginedEnv": "planning.imagined_env",
    "Plan": "planning.plan",
    "plan": "planning.plan",
    "plan_run": "planning.run",
    "GoalSet": "planning.goal_set",
    "make_goals": "planning.goals",
    "load_goals": "planning.goal_files",
    "save_goals": "planning.goal_files",
    "shortest_plans": "planning.exact",
    "Task": "worlds.tasks",
    "TASKS": "worlds.tasks",
    "make_task": "worlds.tasks",
    "fit_reward": "planning.reward",
    "load_reward": "planning.reward_files",
    "save_reward": "planning.reward_files",
    "reward_accuracy": "planning.reward",
    "explore": "explorer.explore",
    "export_page": "explorer.export.page",
}

__all__ = ["__version__", *_PUBLIC]

register_envs()


if TYPE_CHECKING:  # the same names for type checkers, which do not run `__getattr__`
    from howm import hub as hub
    from howm.data.dataset import Amounts as Amounts
    from howm.data.dataset import Dataset as Dataset
    from howm.data.dataset import make_dataset as make_dataset
    from howm.data.episodes import Episodes as Episodes
    from howm.data.privileged import Privileged as Privileged
    from howm.data.rollouts import Rollouts as Rollouts
    from howm.data.storage import load_dataset as load_dataset
    from howm.data.storage import save_dataset as save_dataset
    from howm.data.transitions import PictureBatch as PictureBatch
    from howm.data.transitions import SlotBatch as SlotBatch
    from howm.data.transitions import Transitions as Transitions
    from howm.errors import HowmError as HowmError
    from howm.evaluation.evaluate import evaluate as evaluate
    from howm.evaluation.run import evaluate_run as evaluate_run
    from howm.explorer.explore import explore as explore
    from howm.explorer.export.page import export_page as export_page
    from howm.models.check import check_extractor as check_extractor
    from howm.models.check import check_model as check_model
    from howm.models.distance import Metric as Metric
    from howm.models.extractors.base import Extractor as Extractor
    from howm.models.extractors.registry import EXTRACTORS as EXTRACTORS
    from howm.models.imagine import imagine as imagine
    from howm.models.registry import METHODS as METHODS
    from howm.models.registry import Method as Method
    from howm.models.world_model import SlotState as SlotState
    from howm.models.world_model import State as State
    from howm.models.world_model import WorldModel as WorldModel
    from howm.planning.exact import shortest_plans as shortest_plans
    from howm.planning.goal_files import load_goals as load_goals
    from howm.planning.goal_files import save_goals as save_goals
    from howm.planning.goal_set import GoalSet as GoalSet
    from howm.planning.goals import make_goals as make_goals
    from howm.planning.imagined_env import ImaginedEnv as ImaginedEnv
    from howm.planning.plan import Plan as Plan
    from howm.planning.plan import plan as plan
    from howm.planning.reward import fit_reward as fit_reward
    from howm.planning.reward import reward_accuracy as reward_accuracy
    from howm.planning.reward_files import load_reward as load_reward
    from howm.planning.reward_files import save_reward as save_reward
    from howm.planning.run import plan_run as plan_run
    from howm.runs.config import RunConfig as RunConfig
    from howm.runs.config import TrainConfig as TrainConfig
    from howm.runs.config import configure as configure
    from howm.runs.locate import load as load
    from howm.runs.locate import unseen_scenes as unseen_scenes
    from howm.runs.result import RunResult as RunResult
    from howm.training.fit import fit as fit
    from howm.training.options import FitOptions as FitOptions
    from howm.training.run import train_run as train_run
    from howm.worlds.check import check_world as check_world
    from howm.worlds.grid import Grid as Grid
    from howm.worlds.library import LibraryObject as LibraryObject
    from howm.worlds.library import ObjectLibrary as ObjectLibrary
    from howm.worlds.registry import WORLDS as WORLDS
    from howm.worlds.registry import make_world as make_world
    from howm.worlds.scenes import SceneSet as SceneSet
    from howm.worlds.scenes import SceneSplit as SceneSplit
    from howm.worlds.scenes import seeded_split as seeded_split
    from howm.worlds.scenes import split_scenes as split_scenes
    from howm.worlds.spec import WorldSpec as WorldSpec
    from howm.worlds.tasks import TASKS as TASKS
    from howm.worlds.tasks import Task as Task
    from howm.worlds.tasks import make_task as make_task
    from howm.worlds.world import World as World
else:

    def __getattr__(name: str) -> Any:
        if name == "hub":  # a module with verbs of its own: howm.hub.push and howm.hub.pull
            return import_module("howm.hub")
        if name not in _PUBLIC:
            raise AttributeError(f"module 'howm' has no attribute {name!r}")
        value = getattr(import_module(f"howm.{_PUBLIC[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
