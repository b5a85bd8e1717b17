"""The statistics library: pure functions on arrays, with intervals, that know no log, no configuration and no file.

    from pcsuite.stats import paired_bootstrap, sign_flip_test

Names are imported when first used, so that importing the package costs nothing. Results are frozen dataclasses: ``nan``
means "these data do not define it", and ``method`` says how an interval was made. Wrong arguments raise
:class:`~pcsuite.errors.AnalysisError`. Randomness is always passed in as ``rng``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcsuite.stats.agreement import *  # noqa: F403
    from pcsuite.stats.answer_variation import *  # noqa: F403
    from pcsuite.stats.attribution import *  # noqa: F403
    from pcsuite.stats.bootstrap import *  # noqa: F403
    from pcsuite.stats.calibration import *  # noqa: F403
    from pcsuite.stats.clustered import *  # noqa: F403
    from pcsuite.stats.covariates import *  # noqa: F403
    from pcsuite.stats.design import *  # noqa: F403
    from pcsuite.stats.early_stop import *  # noqa: F403
    from pcsuite.stats.effect_sizes import *  # noqa: F403
    from pcsuite.stats.emmeans import *  # noqa: F403
    from pcsuite.stats.equal_tokens import *  # noqa: F403
    from pcsuite.stats.equivalence import *  # noqa: F403
    from pcsuite.stats.estimate import *  # noqa: F403
    from pcsuite.stats.f1 import *  # noqa: F403
    from pcsuite.stats.information import *  # noqa: F403
    from pcsuite.stats.mixed import *  # noqa: F403
    from pcsuite.stats.objective import *  # noqa: F403
    from pcsuite.stats.permutation import *  # noqa: F403
    from pcsuite.stats.planned_looks import *  # noqa: F403
    from pcsuite.stats.pooling import *  # noqa: F403
    from pcsuite.stats.posterior import *  # noqa: F403
    from pcsuite.stats.power import *  # noqa: F403
    from pcsuite.stats.prediction_powered import *  # noqa: F403
    from pcsuite.stats.proportions import *  # noqa: F403
    from pcsuite.stats.random_weights import *  # noqa: F403
    from pcsuite.stats.rates import *  # noqa: F403
    from pcsuite.stats.related_rows import *  # noqa: F403
    from pcsuite.stats.robustness import *  # noqa: F403
    from pcsuite.stats.selection import *  # noqa: F403
    from pcsuite.stats.sequential import *  # noqa: F403
    from pcsuite.stats.shape_free import *  # noqa: F403
    from pcsuite.stats.unit_jackknife import *  # noqa: F403
    from pcsuite.stats.variance import *  # noqa: F403
    from pcsuite.stats.voting import *  # noqa: F403

_EXPORTS = """
estimate: Estimate TestResult
bootstrap: bootstrap_mean bootstrap_means paired_bootstrap bootstrap_ratio bootstrap_totals bootstrap_micro_f1
bootstrap: bootstrap_micro_f1_difference interval_from_draws resample_totals
permutation: sign_flip_test smallest_p micro_f1_permutation_test benjamini_hochberg holm adjust_within_families
effect_sizes: cohens_d_z odds_ratio_paired absolute_risk_reduction paired_t_interval
proportions: blaker paired_difference wilson clustered_se
clustered: cluster_mean cluster_test cluster_interval ClusterMean
shape_free: shape_free_test shape_free_interval
f1: f1_score precision_recall_f1 micro_f1 linearised_f1
design: fixed_design encode_cells cell_totals
mixed: fit_mixed
unit_jackknife: Contrast
attribution: attribute attribution_weights unidentified
selection: best_of
pooling: random_effects Pooled
posterior: shrunken_effects Posterior
related_rows: cluster_rows cluster_sums mean_over_items
emmeans: marginal_means contrasts_with_reference
equivalence: tost_paired noninferior_paired
random_weights: WeightedMean mean_interval mean_test
answer_variation: answer_counts entropy normalised_entropy disagreement
answer_variation: key_facts fact_disagreement semantic_clusters
information: mutual_information information_gain infonce online_code v_information hashed_features fit_probes
calibration: ece_interval brier_interval risk_coverage_interval
power: BinaryWorld MeasuredWorld pilot_world PairedVariances pilot_variances achieved_power
power: minimal_detectable_effect required_items required_replicates least_p items_to_hold
agreement: rater_agreement Agreement cohens_kappa
prediction_powered: prediction_powered_mean PredictionPowered compare_labelled LabelledSample
sequential: anytime_p confidence_sequence log_capital judge_limits family_level ConfidenceSequence
early_stop: stopped_mean StoppingRule
covariates: adjusted_mean AdjustedMean
planned_looks: spending_shares walk_p chance_to_decide
variance: decompose_variance decompose_variance_unbalanced
robustness: worst_case worst_case_difference performance_drop_rate prompt_sensitivity format_spread
voting: self_consistency
rates: abstention_matrix cost_per_correct unsupported_per_100_tokens pareto_front front_probability
equal_tokens: Arm compare_at_equal_tokens readable_pairs affordable_share
objective: Objective Replicate item_parts
"""
# The public names by the module that defines them.
_MODULE_OF = {
    name: module
    for module, names in (line.split(": ") for line in _EXPORTS.strip().splitlines())
    for name in names.split()
}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
