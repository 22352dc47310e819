"""The methods of howm: each with its title, its model, its configuration and its presets."""

from howm.models.cswm import CSWMK, CSWMN, CWMN, NPS, CSWMConfig, CSWMKCopy, NPSConfig
from howm.models.cswm_slots import CSWMSlots, CSWMSlotsConfig
from howm.models.howm import HOWM
from howm.models.howm_config import HOWMConfig
from howm.models.monet_bm import MONetBM, MONetBMConfig
from howm.models.presets import (
    ALIGNED_NPS_PRESETS,
    CSWM_N_PRESETS,
    CSWM_PRESETS,
    HOWM_BY_TRAIT,
    HOWM_FREE_PRESETS,
    HOWM_PAPER_BY_TRAIT,
    HOWM_PAPER_PRESETS,
    HOWM_PRESETS,
    MONET_BY_TRAIT,
    MONET_PRESETS,
    STOVE_PRESETS,
)
from howm.models.registry import Method
from howm.models.stove import STOVE, STOVEConfig

CSWM_N = Method("cswm-n", "Σ_N-CSWM", "N masks in action order: exact, O(N²)", CSWMN, CSWMConfig, CSWM_N_PRESETS)
CSWM_K = Method("cswm-k", "Σ_K-CSWM", "K masks, actions by the scene's ids", CSWMK, CSWMConfig, CSWM_PRESETS)
CSWM_K_CA = Method("cswm-k-ca", "Σ_K-CSWM(CA)", "K masks, all actions to each", CSWMKCopy, CSWMConfig, CSWM_PRESETS)
CWM_N = Method("cwm-n", "C-WM(N)", "N masks, flat MLPs: no equivariance", CWMN, CSWMConfig, CSWM_PRESETS)
CSWM_SLOTS = Method(
    "cswm-slots", "C-SWM + slots", "N slots of Slot Attention", CSWMSlots, CSWMSlotsConfig, CSWM_PRESETS
)
NPS_N = Method("nps", "NPS", "N masks, rules in place of messages", NPS, NPSConfig, CSWM_PRESETS)
ALIGNED_NPS = Method(
    "aligned-nps", "AlignedNPS", "HOWM's slots and binding, rules in place of messages", HOWM, HOWMConfig,
    ALIGNED_NPS_PRESETS, "extractor",
)  # fmt: skip
MONET_BM = Method(
    "monet-bm", "MONet(N)+BM", "N slots of MONet, matched, unbound", MONetBM, MONetBMConfig, MONET_PRESETS, "monet",
    by_trait=MONET_BY_TRAIT,
)  # fmt: skip
STOVE_K = Method("stove", "STOVE", "K glimpses, filtered over frames, unbound", STOVE, STOVEConfig, STOVE_PRESETS)
HOWM_PAPER = Method(
    "howm-paper", "HOWM", "Slot Attention, linear maps", HOWM, HOWMConfig, HOWM_PAPER_PRESETS, "extractor",
    by_trait=HOWM_PAPER_BY_TRAIT,
)  # fmt: skip
HOWM_OURS = Method(
    "howm", "HOWM (ours)", "K+1 slots that know who they are: exact, O(K²)", HOWM, HOWMConfig, HOWM_PRESETS,
    "extractor", HOWM_FREE_PRESETS, HOWM_BY_TRAIT,
)  # fmt: skip
