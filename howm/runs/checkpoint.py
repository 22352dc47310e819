"""Weights, configuration and provenance in one safetensors file.

The file's header carries JSON under the key ``howm``; one file, replaced in one go, is always whole. No pickle. It
begins with the SHA-256 of the file's bytes, taken with zeros in its place: no byte of a checkpoint changes unnoticed.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from howm.errors import HowmError, shorten
from howm.files import PARSE_ERRORS, atomic_write, require_file
from howm.runs.record import RunRecord

MAX_HEADER = 2**24  # bytes
LARGEST = 1e20  # of a weight: none that was trained is nearly as large
_BLANK = "0" * 64
_BEGINS = '{"sha256": "'
_IN_FILE = b'{\\"sha256\\": \\"'  # the same, as a string within the header's own JSON


@dataclass(frozen=True)
class Checkpoint:
    """``tensors`` are named ``model.*`` and, where training can resume, ``optimizer.*``."""

    record: RunRecord
    tensors: dict[str, Tensor]

    @property
    def step(self) -> int:
        return self.record.progress.step

    def weights(self) -> dict[str, Tensor]:
        return {name.removeprefix("model."): t for name, t in self.tensors.items() if name.startswith("model.")}


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in checkpoint.tensors.items()}
    with atomic_write(path) as temporary:
        write_sealed(tensors, checkpoint.record.to_json(), temporary)


def write_sealed(tensors: Mapping[str, Tensor], record: str, path: Path) -> None:
    """Write tensors and a record (JSON of an object) with the digest of the file in it."""
    try:
        save_file(dict(tensors), path, metadata={"howm": f'{_BEGINS}{_BLANK}", {record[1:]}'})
    except SafetensorError as error:  # a full disk looks like this
        raise OSError(str(error)) from error
    place, _, digest = _digests(path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(digest.encode())


def _digests(path: Path) -> tuple[int, str, str]:
    """Where the digest of a file stands, what stands there, and what should."""
    size = require_file(path, "train a model with `howm train`")
    with open(path, "rb") as file:
        begin = file.read(8)
        length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else size
        if not 0 < length <= min(size - 8, MAX_HEADER):
            raise HowmError(f"checkpoint {path} cannot be read: it is damaged or not a safetensors file")
        header = file.read(length)
        place = header.find(_IN_FILE) + len(_IN_FILE)
        if place < len(_IN_FILE) or len(header) < place + len(_BLANK):
            raise HowmError(f"{path} is not a checkpoint of howm with a checksum; train a model with `howm train`")
        found = header[place : place + len(_BLANK)].decode(errors="replace")
        sha = hashlib.sha256(begin + header[:place] + _BLANK.encode() + header[place + len(_BLANK) :])
        while block := file.read(2**20):
            sha.update(block)
    return 8 + place, found, sha.hexdigest()


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; a changed byte, an unknown key or a number that no training gives is one clear error."""
    try:
        _, found, digest = _digests(path)
        if found != digest:
            raise HowmError(f"checkpoint {path} is damaged: its checksum is wrong; get or train it again")
        with safe_open(path, framework="pt") as file:
            record = RunRecord.from_json((file.metadata() or {}).get("howm", "{}"), path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise HowmError(f"there is no checkpoint {path}; train a model with `howm train`") from None
    except HowmError:
        raise
    except (SafetensorError, OSError, *PARSE_ERRORS) as error:
        raise HowmError(f"checkpoint {path} cannot be read: {shorten(error)}") from error
    for name, tensor in tensors.items():
        _refuse_absurd(name, tensor, path)
    return Checkpoint(record, tensors)


def _refuse_absurd(name: str, tensor: Tensor, path: Path) -> None:
    if not tensor.is_floating_point() or not tensor.numel():
        return
    largest = float(tensor.float().abs().max())
    if not (largest <= LARGEST if name.startswith("model.") else math.isfinite(largest)):
        raise HowmError(f"checkpoint {path} has {largest:g} in {shorten(name, 60)}; get or train it again")
