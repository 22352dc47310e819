"""Sweeps on a Ray cluster: a real one of two nodes on this machine, of which one is lost."""

from threading import Thread

import pytest
from test_sweep import SETTINGS, Recorder, howm, small

from howm.errors import HowmError
from howm.experiments.engines import run_local, run_on_ray
from howm.experiments.folder import Sweep

pytestmark = pytest.mark.ray

LONG = (*SETTINGS, "train.steps=400", "train.batch=64", "train.check_every=50", "train.log_every=50")


@pytest.fixture
def cluster():
    """A head and a second node, with one CPU each."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


def test_the_loss_of_a_node_costs_nothing(cluster, tmp_path):
    ray_cluster, second = cluster
    config = small(methods=("cswm-n", "cswm-k", "cwm-n"), settings=LONG)
    sweep, undisturbed = Sweep(tmp_path / "ray", config), Sweep(tmp_path / "local", config)
    runs = config.runs()
    recorder, found = Recorder(), {}
    thread = Thread(target=lambda: found.update(run_on_ray(sweep, runs, None, 0, recorder)))
    thread.start()
    while not all((sweep.run_path(run) / "last.safetensors").exists() for run in runs[:2]):
        thread.join(0.05)
        assert thread.is_alive(), found
    ray_cluster.remove_node(second, allow_graceful=False)  # killed, with a run in the middle of its training
    thread.join()
    assert found == dict.fromkeys(runs, "ok")
    assert sorted(recorder.heard) == sorted((run.method, "ok") for run in runs)  # each once
    begun = {run: (sweep.run_path(run) / "log.txt").read_text().split("begins at step ")[1:] for run in runs}
    again = [lines for lines in begun.values() if len(lines) > 1]
    assert len(again) == 1, begun
    assert int(again[0][1].split()[0]) > 0  # it went on from its checkpoint

    run_local(undisturbed, runs, 2, Recorder())
    assert len(list((tmp_path / "ray" / "results").rglob("*.json"))) == len(runs)
    for run in runs:
        one, other = (s.result(run) for s in (sweep, undisturbed))
        assert (one.scores, one.curve) == (other.scores, other.curve)


def test_the_command_line_runs_cells_as_tasks(tmp_path):
    options = ("--methods", "cswm-n", "--envs", "shapes", "-n", 5, "--seeds", 0, "--budget", "quick", "--steps", 1,
               "--episodes", 60, "--memory-mb", 2000, "--set", *SETTINGS)  # fmt: skip
    result = howm("sweep", *options, "--engine", "ray", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "1 ok"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_a_cluster_that_is_not_there_is_named(address, tmp_path):
    sweep = Sweep(tmp_path, small())
    with pytest.raises(HowmError, match=f"at {address} "):
        run_on_ray(sweep, sweep.open_runs(), address, 0, Recorder())


def test_what_no_node_has_is_not_waited_for(tmp_path):
    options = ("--methods", "cswm-n", "--envs", "shapes", "-n", 5, "--engine", "ray", "--gpus", 64)
    result = howm("sweep", *options, "--out", tmp_path)
    assert result.returncode == 2
    assert "no node of the Ray cluster has CPU 1, GPU 64" in result.stderr
