"""What each block of a prompt is worth: ``pcsuite ablate`` and the functions it is made of."""

from pcsuite.ablation.ablate import ablate
from pcsuite.ablation.forecast import preview
from pcsuite.ablation.rearranged import ChangeResult, rearrange
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.result import AblationResult

__all__ = ["AblationRequest", "AblationResult", "ChangeResult", "ablate", "preview", "rearrange"]
