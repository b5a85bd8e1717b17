"""Results documents of the verifier, as short as a comparison of two of them needs."""

from typing import Any


def document(
    *found: tuple[Any, ...], f1: float = 0.5, rules: str = "r", eval_id: str = "house"
) -> dict[str, Any]:
    """A document with these discrepancies: path, expected, actual and type of error."""
    keys = ("field_path", "expected", "actual", "error_type")
    return {
        "eval_id": eval_id,
        "rules_hash": rules,
        "truth_hash": "t",
        "metrics": {"f1": f1},
        "discrepancies": [dict(zip(keys, entry, strict=True)) for entry in found],
    }
