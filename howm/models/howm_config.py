"""What can be chosen of HOWM."""

from dataclasses import dataclass, field
from typing import Any, Literal

from howm.config import PARSER, require_least, require_positive, validate
from howm.errors import HowmError
from howm.models.align import Lift
from howm.models.extractors.cells import ExtractorConfig
from howm.models.extractors.registry import parse_extractor
from howm.models.losses import SIGMA
from howm.models.structured import StructuredConfig


@dataclass(frozen=True)
class HOWMConfig:
    """The defaults are the paper's, where it gives any.

    ``sigma`` is the unit of length of the embedding: the energy is measured in it, and embeddings are scaled by it. Of
    embeddings that are small beside its weights the transition sees little: with the paper's 0.5 it does not learn
    for thousands of steps that objects stand in each other's way.

    ``state=structured`` keeps what an object is and predicts where it lies; it needs an extractor whose slots say both
    (anchors). ``embedding``, ``maps``, ``margin`` and ``sigma`` are of ``state=embedding`` alone.
    """

    extractor: Any = field(default_factory=ExtractorConfig, metadata={PARSER: parse_extractor})
    hidden: int = 512
    embedding: int = 4
    attention: int = 16
    maps: Literal["linear", "mlp"] = "linear"  # from slots to embeddings and to queries
    compete: Literal["slots", "objects"] = "slots"
    lift: Lift = "pseudo_inverse"
    identity_loss_weight: float = 0.0  # of the loss by which a slot that changed must claim to be the object that acted
    margin: float = 1.0
    sigma: float = SIGMA
    places: bool = False  # begin embeddings with the place at which the extractor draws a slot, if it says one
    transition: Literal["gnn", "corrected", "nps"] = "gnn"
    message_warmup: int = 0  # training steps without messages, which then fade in over as many
    background_messages: bool = True  # let the background's slot send and receive messages, as objects do
    rules: int = 4  # of transition=nps
    listed_objects: int = 500  # at most; a larger library is searched instead of listed (lift=claims, state=embedding)
    gallery: bool = False  # know the objects of a searched library by their looks, where the extractor can tell them
    joint: bool = False  # train extractor and transition together, by the sum of their losses
    state: Literal["embedding", "structured"] = "embedding"
    structured: StructuredConfig = field(default_factory=StructuredConfig)

    def __post_init__(self) -> None:
        validate(self)
        require_least(self, 1, "hidden", "embedding", "attention", "rules")
        require_positive(self, "margin", "sigma")
        if self.places:
            require_least(self, 3, "embedding")  # two are the place
        require_least(self, 0, "identity_loss_weight", "message_warmup", "listed_objects")
        if self.identity_loss_weight and self.compete == "slots":
            raise HowmError(
                f"identity_loss_weight={self.identity_loss_weight} needs compete=objects; set it, or the weight to 0"
            )
        if self.lift == "claims" and self.compete == "slots":
            raise HowmError("lift=claims needs compete=objects; set it, or choose another lift")
        if self.state == "structured" and (self.lift != "claims" or self.joint):
            raise HowmError("state=structured needs lift=claims and joint=false; set them, or state=embedding")
        if self.transition == "nps" and (self.state == "structured" or self.message_warmup):
            raise HowmError("transition=nps has no messages and no structured state; set state=embedding")
