"""Checkers of your own models and extractors: each violation of the contract is one line that names the verb."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from howm.config import from_plain
from howm.data.privileged import Privileged
from howm.data.transitions import PictureBatch, SlotBatch
from howm.errors import HowmError
from howm.models.distance import Metric
from howm.models.extractors.base import Extractor
from howm.models.extractors.registry import EXTRACTORS, parse_extractor
from howm.models.registry import METHODS, Method
from howm.models.world_model import State, WorldModel, device_of, evaluating, full_precision
from howm.worlds.spec import WorldSpec

_BATCH = 6
_SPEC = WorldSpec(n=6, k=3)


def check_model(model: WorldModel | type[WorldModel] | Method | str, spec: WorldSpec | None = None) -> list[str]:
    """Where a model breaks its contract, one line for each problem; empty if it keeps it.

    Given a name, a Method or a class, a model with fresh weights is built for ``spec``, by default a small grid world.
    """
    if isinstance(model, str):
        model = METHODS[METHODS.allow(model)]
    elif isinstance(model, type):
        model = Method(model.__name__, model.__name__, "", model, model.Config, model.presets)
    if isinstance(model, Method):
        spec = spec or _SPEC
        preset = model.preset("cpu", spec) if "cpu" in model.presets else {}
        with torch.random.fork_rng(devices=[]):
            model = model.build(spec, from_plain(model.model_config, preset.get("model", {}), "model."))
    spec = spec or model.spec
    if spec is None:
        raise HowmError("the model does not know its world; give check_model a spec, or super().__init__ one")
    model.spec = spec
    check = _Check()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        with evaluating(model):
            _check_verbs(check, model, spec)
        _check_forward(check, model, spec)
    return check.found


def check_extractor(extractor: Extractor | type[Extractor] | str, spec: WorldSpec | None = None) -> list[str]:
    """Where an extractor breaks its contract, one line for each problem; empty if it keeps it."""
    spec = spec or _SPEC
    if isinstance(extractor, str):
        name = EXTRACTORS.allow(extractor)
        with torch.random.fork_rng(devices=[]):
            extractor = EXTRACTORS[name](spec, parse_extractor({"kind": name}, "extractor"))
    elif isinstance(extractor, type):
        with torch.random.fork_rng(devices=[]):
            extractor = extractor(spec, extractor.Config())
    check = _Check()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        pictures = _pictures(spec, _BATCH).to(device_of(extractor))
        with evaluating(extractor):
            _check_slots(check, extractor, spec, pictures)
        with check.watch("forward"), torch.enable_grad():
            check.loss(extractor, pictures)
    return check.found


class _Check:
    """The rules that all verbs share, and what was found."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def say(self, verb: str, text: str) -> None:
        if f"{verb}: {text}" not in self.found:
            self.found.append(f"{verb}: {text}")

    @contextmanager
    def watch(self, verb: str) -> Iterator[None]:
        """An exception is a violation, and ends the checks of this verb."""
        try:
            yield
        except Exception as error:
            self.say(verb, f"raises {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")

    def rows(self, verb: str, call: Callable[..., Any], inputs: tuple[Any, ...], disturb: Callable[[], Any]) -> Any:
        """Rows must be functions of their own row of the inputs alone; gives the result."""
        before, inputs = inputs, tuple(_copy(value) for value in inputs)
        result = call(*inputs)
        saved = _copy(result)
        kept = _tensors(saved)
        if not _equal(_tensors(before), _tensors(inputs)):
            self.say(verb, "modifies its input; work on a copy")
            return saved
        if any(tensor.dim() < 1 or len(tensor) != _BATCH for tensor in kept) or not kept:
            self.say(verb, f"must give tensors with a batch axis of {_BATCH}, got {[tuple(t.shape) for t in kept]}")
            return saved
        if not all(bool(tensor.isfinite().all()) for tensor in kept):
            self.say(verb, "gives NaN or infinity")
        again = [tensor.clone() for tensor in _tensors(call(*inputs))]
        if not _equal(kept, again):
            self.say(verb, "keeps state between calls, or is random in eval mode: the same input gives other values")
            return saved
        order = torch.arange(_BATCH - 1, -1, -1)
        if not _close(_tensors(_pick(saved, order)), _tensors(call(*_pick(inputs, order)))):
            self.say(verb, "depends on the order of the batch")
        if not _close(_tensors(_pick(saved, slice(0, 2))), _tensors(call(*_pick(inputs, slice(0, 2))))):
            self.say(verb, "depends on the other rows of the batch")
        disturb()
        if not _equal(kept, _tensors(result)):
            self.say(verb, "overwrites a result that it gave before; return a copy")
        elif not _equal(kept, [tensor.clone() for tensor in _tensors(call(*inputs))]):
            self.say(verb, "keeps state between calls: what came between changes its result")
        return saved

    def shape(self, verb: str, tensor: Any, expected: tuple[int | None, ...]) -> bool:
        shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else None
        fits = shape is not None and len(shape) == len(expected)
        fits = fits and all(want in (None, size) for want, size in zip(expected, shape or (), strict=True))
        if not fits:
            wanted = ", ".join("any" if size is None else str(size) for size in expected)
            self.say(verb, f"must give a tensor of shape ({wanted}), got {shape or type(tensor).__name__}")
        elif not tensor.is_floating_point():
            self.say(verb, f"must give floats, got {tensor.dtype}")
        return fits

    def loss(self, module: Callable[[Any], Any], batch: Any) -> Tensor | None:
        """The loss of ``forward``, if it is one that can be minimised."""
        before = [tensor.clone() for tensor in _tensors(batch)]
        result = module(batch)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            self.say("forward", f"must give a loss and a dict of logs, got {type(result).__name__}")
            return None
        loss, logs = result
        if not (isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad and bool(loss.isfinite())):
            self.say("forward", "must give a finite scalar loss that depends on the weights")
            return None
        for name, value in logs.items():
            if isinstance(value, Tensor) and (value.numel() != 1 or value.requires_grad):
                self.say("forward", f"must log detached scalars, got {name} of shape {tuple(value.shape)}")
        if not _equal(before, _tensors(batch)):
            self.say("forward", "modifies its batch; work on a copy")
        return loss.detach()


def _check_verbs(check: _Check, model: WorldModel, spec: WorldSpec) -> None:
    device = device_of(model)
    pictures, privileged = _pictures(spec, _BATCH).to(device), _privileged(spec, _BATCH).to(device)
    actions = (torch.arange(_BATCH) * max(1, spec.actions // _BATCH) % spec.actions).to(device)
    others = _pictures(spec, _BATCH).to(device)

    def disturb() -> None:
        with suppress(Exception):  # which the check of that verb reports
            model.embed(model.step(model.encode(others, privileged), actions.flip(0)))

    inputs = (pictures, privileged) if model.privileged else (pictures,)
    with check.watch("encode"):
        # Other pictures: a model that remembers must be given these for the first time by the checks of rows.
        state = model.encode(others.clone(), *_pick(inputs[1:], slice(None)))
        if not isinstance(state, State):
            check.say("encode", f"must give a howm.State, got {type(state).__name__}")
            return
        state = check.rows("encode", model.encode, inputs, disturb)
        if check.found:  # all else builds on it
            return
        if not _close(_tensors(state), _tensors(model.encode(pictures.float() / 255, *inputs[1:])), 1e-3):
            check.say("encode", "gives other states for the same pictures as floats in 0-1")
        _check_ids(check, model, pictures, spec)
        after = None
        with check.watch("step"):
            after = check.rows("step", model.step, (state, actions), disturb)
            if not isinstance(after, type(state)):
                check.say("step", f"must give a {type(state).__name__}, as encode does, got {type(after).__name__}")
                return
            if [tensor.shape for tensor in _tensors(after)] != [tensor.shape for tensor in _tensors(state)]:
                check.say("step", "must give a state of the same shape as its input")
            for first in range(0, spec.actions, _BATCH):
                model.step(_copy(state), (torch.arange(first, first + _BATCH) % spec.actions).to(device))
        with check.watch("embed"):
            embedded = check.rows("embed", model.embed, (state,), disturb)
            if check.shape("embed", embedded, (_BATCH, None)):
                with check.watch("metric"):
                    _check_metric(check, model.metric, embedded, embedded if after is None else model.embed(after))
        _check_capabilities(check, model, spec, pictures, state)


def _check_ids(check: _Check, model: WorldModel, pictures: Tensor, spec: WorldSpec) -> None:
    """Ids do not reach a model that does not declare it; that it would read them is still worth a line."""
    own = type(model).encode.__wrapped__  # type: ignore[attr-defined]  # beneath the checks of the contract
    if model.privileged or len(inspect.signature(own).parameters) < 3:
        return
    states = [own(model, pictures, _privileged(spec, _BATCH).to(pictures.device)) for _ in range(2)]
    if not _equal(*(_tensors(state) for state in states)):
        check.say("encode", "reads object ids; declare privileged = True")


def _check_metric(check: _Check, metric: Metric, one: Tensor, other: Tensor) -> None:
    """Each distance must depend on its own pair alone, to the last bit: else equal states would not tie in ranks."""
    rows, columns = one.double().cpu(), torch.cat([other.flip(0), one.roll(1, 0)]).double().cpu()
    inputs = [rows.clone(), columns.clone()]
    table = metric.pairwise(*inputs)
    if not check.shape("metric", table, (len(rows), len(columns))):
        return
    if not _equal(inputs, [rows, columns]):
        check.say("metric", "modifies its input; work on a copy")
    if not bool(table.isfinite().all()) or bool((table < 0).any()):
        check.say("metric", "must give finite distances of 0 or more")
    order = torch.arange(len(columns) - 1, -1, -1)

    def differs(expected: Tensor, some: Tensor, others: Tensor) -> bool:
        return not torch.equal(expected, metric.pairwise(some.clone(), others.clone()))

    if differs(table, rows, columns):
        check.say("metric", "keeps state between calls, or is random: the same pairs get other distances")
    elif differs(table[:, order], rows, columns[order]):
        check.say("metric", "depends on the order of the references")
    elif differs(table.flip(0), rows.flip(0), columns):
        check.say("metric", "depends on the place of the prediction")
    elif differs(table[:1, :1], rows[:1], columns[:1]):
        check.say("metric", "depends on more than its own pair")
    elif differs(table.unsqueeze(1), rows.unsqueeze(1), columns.expand(len(rows), -1, -1)):
        check.say("metric", "gives other distances where each prediction has references of its own (*b, P, F)")


def _check_capabilities(check: _Check, model: WorldModel, spec: WorldSpec, pictures: Tensor, state: State) -> None:
    with check.watch("masks"):
        masks = model.masks(pictures)
        if masks is not None and check.shape("masks", masks, (_BATCH, None, spec.height, spec.width)):
            check.rows("masks", model.masks, (pictures,), lambda: None)
    with check.watch("draw"):
        if model.draw(state) is not None:
            drawn = check.rows("draw", model.draw, (state,), lambda: None)
            check.shape("draw", drawn, (_BATCH, spec.height, spec.width, 3))
    with check.watch("binding"):
        binding = model.binding(state)
        if binding is not None and check.shape("binding", binding, (_BATCH, spec.n, None)):
            with check.watch("rebind"):
                flipped = model.binding(model.rebind(state, binding.flip(1)))
                if flipped is None or not torch.equal(flipped, binding.flip(1)):
                    check.say("rebind", "must give a state with the binding that it was given")


def _check_forward(check: _Check, model: WorldModel, spec: WorldSpec) -> None:
    device, extractor = device_of(model), model.frozen_extractor
    frames = [_pictures(spec, _BATCH).to(device) for _ in range(3)]
    action = (torch.arange(_BATCH) % spec.actions).to(device)
    known = [_privileged(spec, _BATCH).to(device) for _ in range(2)]
    with check.watch("forward"), torch.enable_grad():
        if extractor is not None:
            current, following, negative = (full_precision(extractor.slots(frame)).detach() for frame in frames)
            check.loss(model, SlotBatch(current, action, following, negative))
            return
        batch = PictureBatch(frames[0], action, frames[1], frames[2], known[0], known[1])
        losses = []
        for one in (batch, batch if model.privileged else batch.without_privileged()):
            torch.manual_seed(0)
            losses.append(check.loss(model, one))
        if not model.privileged and None not in losses and not torch.equal(*losses):  # type: ignore[arg-type]
            check.say("forward", "reads the object ids of its batch; declare privileged = True")


def _check_slots(check: _Check, extractor: Extractor, spec: WorldSpec, pictures: Tensor) -> None:
    others = _pictures(spec, _BATCH).to(pictures.device)
    with check.watch("slots"):
        slots = check.rows("slots", extractor.slots, (pictures,), lambda: extractor.slots(others))
        if not check.shape("slots", slots, (_BATCH, extractor.num_slots, extractor.slot_size)):
            return
        with check.watch("masks"):
            masks = check.rows("masks", extractor.masks, (slots,), lambda: extractor.slots(others))
            check.shape("masks", masks, (_BATCH, extractor.num_slots, spec.height, spec.width))
        if extractor.knows_places:
            with check.watch("drawn_at"):
                places = check.rows("drawn_at", extractor.drawn_at, (slots,), lambda: extractor.slots(others))
                check.shape("drawn_at", places, (_BATCH, extractor.num_slots, 2))
        if extractor.knows_looks:
            with check.watch("look"):
                looks = check.rows("look", extractor.look, (slots,), lambda: extractor.slots(others))
                check.shape("look", looks, (_BATCH, extractor.num_slots, looks.shape[-1]))
        with check.watch("draw"):
            drawn = check.rows("draw", extractor.draw, (slots,), lambda: extractor.slots(others))
            if check.shape("draw", drawn, (_BATCH, spec.height, spec.width, 3)):
                low, high = float(drawn.min()), float(drawn.max())
                if low < -1e-4 or high > 1 + 1e-4:
                    check.say("draw", f"must give colours in 0-1, got {low:g} to {high:g}")


def _pictures(spec: WorldSpec, count: int) -> Tensor:
    """Bright squares on black, K in each picture."""
    pictures = torch.zeros(count, spec.height, spec.width, 3, dtype=torch.uint8)
    side = spec.cell_pixels or max(1, min(spec.height, spec.width) // 5)
    for picture in pictures:
        for _ in range(spec.k):
            top = int(torch.randint(max(1, spec.height // side), ())) * side
            left = int(torch.randint(max(1, spec.width // side), ())) * side
            picture[top : top + side, left : left + side] = torch.randint(50, 256, (3,), dtype=torch.uint8)
    return pictures


def _privileged(spec: WorldSpec, count: int) -> Privileged:
    return Privileged(torch.stack([torch.randperm(spec.n)[: spec.k].sort().values for _ in range(count)]))


def _tensors(value: Any) -> list[Tensor]:
    """All tensors in a value: a tensor, or tuples and dataclasses of them."""
    if isinstance(value, Tensor):
        return [value]
    parts = value if isinstance(value, tuple) else vars(value).values() if hasattr(value, "__dict__") else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return value.map(torch.clone) if isinstance(value, State) else value


def _pick(value: Any, rows: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_pick(part, rows) for part in value)
    return Privileged(value.object_ids[rows].clone()) if isinstance(value, Privileged) else value[rows]


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _close(one: list[Tensor], other: list[Tensor], tolerance: float = 1e-4) -> bool:
    """Up to rounding, which may depend on the size of a batch."""
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance)
        for a, b in zip(one, other, strict=True)
    )
