"""Ways to enforce a constraint while decoding, and the registry of them.

``native`` leaves it to the model's own engine or server; the others steer a model that this process runs.
"""

from __future__ import annotations

from pcsuite.constraints.base import ConstraintBackend
from pcsuite.registry import Registry

CONSTRAINTS: Registry[type[ConstraintBackend]] = Registry(
    "constraint backend",
    "pcsuite.constraints",
    {
        "native": "pcsuite.constraints.native:NativeBackend",
        "outlines_json": "pcsuite.constraints.outlines_json:OutlinesBackend",
        "guidance_cfg": "pcsuite.constraints.guidance_cfg:GuidanceBackend",
        "lmql_program": "pcsuite.constraints.lmql_program:LmqlBackend",
    },
)

AUTO_ORDER = ("native", "outlines_json", "guidance_cfg", "lmql_program")
"""Whom ``engine: auto`` asks first; backends of plug-ins come after these, by name."""
