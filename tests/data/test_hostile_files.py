"""HDF5 of somebody who wants more than to be read: nothing of another file is read, and nothing explodes."""

import resource

import h5py
import numpy as np
import pytest

from howm import Amounts, make_dataset
from howm.data.formats.cswm import export_cswm, import_cswm
from howm.data.storage import load_dataset, save_dataset
from howm.errors import HowmError

SMALL = Amounts(train_episodes=12, train_steps=4, eval_episodes=12, eval_steps=2)
MOST_KILOBYTES = 200_000


def elsewhere(group, name, secret):
    group[name] = h5py.ExternalLink(str(secret), "secret")


def linked(group, name, secret):
    group[name] = h5py.SoftLink("/about")


def stored_elsewhere(group, name, secret):
    group.create_dataset(name, (12, 4), "i8", external=[(str(secret), 0, 12 * 4 * 8)])


def virtual(group, name, secret):
    layout = h5py.VirtualLayout((12, 4), "i8")
    layout[:] = h5py.VirtualSource(str(secret), "secret", (12, 4))
    group.create_virtual_dataset(name, layout)


def exploding(group, name, secret):
    """Three gigabytes in some kilobytes: chunks that were never written are zeros."""
    group.create_dataset(name, (400_000, 1_000), "i8", chunks=(4_000, 1_000), compression="gzip")


def in_one_chunk(group, name, secret):
    group.create_dataset(name, (12, 4), "i8", chunks=(12, 4), maxshape=(None, None), compression="gzip")
    group[name].resize((400_000, 1_000))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    data = make_dataset("shapes", 5, 2, amounts=SMALL, train_scenes=6)
    save_dataset(data, folder / "data.h5")
    for part in ("train", "eval"):
        export_cswm(data, part, folder / f"{part}.h5")
    with h5py.File(folder / "secret.h5", "w") as file:
        file["secret"] = np.zeros((12, 4), dtype="i8")
    return folder


@pytest.mark.parametrize("change", [elsewhere, linked, stored_elsewhere, virtual, exploding, in_one_chunk])
@pytest.mark.parametrize("kind", ["dataset", "imported"])
def test_it_is_refused_in_one_line_and_little_memory(files, tmp_path, change, kind):
    path = tmp_path / "file.h5"
    path.write_bytes((files / ("data.h5" if kind == "dataset" else "train.h5")).read_bytes())
    with h5py.File(path, "r+") as file:
        name = "train/actions" if kind == "dataset" else "0/action"
        del file[name]
        group, leaf = name.split("/")
        change(file[group], leaf, files / "secret.h5")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HowmError) as error:
        load_dataset(path) if kind == "dataset" else import_cswm(path, files / "eval.h5", None, 5, 2)
    assert "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES
