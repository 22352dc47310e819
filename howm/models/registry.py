"""The methods by name: those of howm, of installed packages (entry points ``howm.methods``), and of a person.

Torch loads when a method is first asked for, not when the names are listed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from howm.config import merge
from howm.errors import HowmError
from howm.registry import Registry
from howm.worlds.spec import WorldSpec

if TYPE_CHECKING:
    from howm.models.world_model import WorldModel


@dataclass(frozen=True)
class Method:
    """A row of the table. ``presets`` hold only what differs from the defaults, which are the paper's."""

    name: str
    title: str
    summary: str
    build: "Callable[[WorldSpec, Any], WorldModel]"
    model_config: type[Any]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"paper": {}, "cpu": {}})
    represents: str | None = None  # the group of model.* that configures the extractor, where one is trained first
    without_grid: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # presets where cells are not enough
    by_trait: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what each preset adds for a trait of the
    # world; where there are presets without a grid, only these do

    def preset(self, name: str, spec: WorldSpec | None = None, extractor: str | None = None) -> Mapping[str, Any]:
        """The values of a preset: the one for worlds beyond a plain grid if the world is one, unless another kind of
        extractor than its own is asked for; and on any world if its own is."""
        if name not in self.presets:
            raise HowmError(f"unknown preset {name!r} of {self.name}; choose one of {', '.join(self.presets)}")
        found, other = self.presets[name], self.without_grid.get(name)
        if other is not None:
            free = spec is not None and not spec.fits_cells
            if not (free if extractor is None else extractor == other["model"]["extractor"]["kind"]):
                return found
            found = other
        for trait, values in self.by_trait.items():
            if spec is not None and getattr(spec, trait):
                found = merge(found, values.get(name, {}))
        return found


def _method(name: str, found: Any) -> Method:
    """A Method, or the class of a model, which says the same in its attributes."""
    from howm.models.world_model import WorldModel

    if isinstance(found, Method):
        return replace(found, name=name)
    if not (isinstance(found, type) and issubclass(found, WorldModel)):
        raise HowmError(f"the method {name} must be a howm Method or a subclass of howm.WorldModel, got {found!r}")
    summary = (found.__doc__ or "").strip().partition("\n")[0]
    title = found.title or found.__name__
    return Method(name, title, summary, found, found.Config, found.presets, found.represents)


_PLACE = "howm.models.methods"
METHODS: Registry[Method] = Registry(
    "method",
    {
        "cswm-n": f"{_PLACE}:CSWM_N",
        "cswm-k": f"{_PLACE}:CSWM_K",
        "cswm-k-ca": f"{_PLACE}:CSWM_K_CA",
        "cwm-n": f"{_PLACE}:CWM_N",
        "cswm-slots": f"{_PLACE}:CSWM_SLOTS",
        "nps": f"{_PLACE}:NPS_N",
        "monet-bm": f"{_PLACE}:MONET_BM",
        "stove": f"{_PLACE}:STOVE_K",
        "aligned-nps": f"{_PLACE}:ALIGNED_NPS",
        "howm-paper": f"{_PLACE}:HOWM_PAPER",
        "howm": f"{_PLACE}:HOWM_OURS",
    },
    _method,
)


def find_method(name: str) -> Method:
    return METHODS[name]


def build_model(method: str, spec: WorldSpec, config: Any, seed: int) -> "WorldModel":
    """A model with fresh weights that depend on the seed alone."""
    import torch

    build = METHODS[method].build
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(spec, config)
    model.spec = spec
    return model


def default_preset() -> str:
    import torch

    return "paper" if torch.cuda.is_available() else "cpu"
