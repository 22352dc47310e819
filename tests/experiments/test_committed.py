"""The sweeps of our own results can be planned as they stand."""

from pathlib import Path

import pytest

from howm.config import from_plain, read_yaml
from howm.experiments.plan import SweepConfig

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_run_has_a_configuration(path: Path) -> None:
    config = from_plain(SweepConfig, read_yaml(str(path)))
    runs = config.runs()
    assert len({run.name for run in runs}) == len(runs) > 0
    for run in runs:
        config.run_config(run)
