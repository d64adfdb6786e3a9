from .assumptions import fitted_elsewhere as fitted_elsewhere
from .calibration import calibration_page as calibration_page
from .calibration_text import (
    calibration_findings as calibration_findings,
    calibration_lead as calibration_lead,
    far_rows as far_rows,
)
from .crosscheck import write_crosscheck_page as write_crosscheck_page
from .crosscheck_text import (
    crosscheck_findings as crosscheck_findings,
    crosscheck_lead as crosscheck_lead,
    differences as differences,
    link_bytes as link_bytes,
    swept as swept,
)
from .explanation import write_explanation_page as write_explanation_page
from .explanation_text import (
    best_sentence as best_sentence,
    headline_sentence as headline_sentence,
    listed_changes as listed_changes,
    set_words as set_words,
    shown_differences as shown_differences,
    shown_parts as shown_parts,
    signed_seconds as signed_seconds,
)
from .findings.compression import CompressedPlan as CompressedPlan, compressed_plans as compressed_plans
from .findings.study import write_findings as write_findings
from .limits import limits_words as limits_words
from .manifest import inputs as inputs, versions as versions, write_manifest as write_manifest
from .page import write_page as write_page
from .peak import sentence as sentence, shares as shares, sizes_of as sizes_of
from .phrases import (
    NOTHING as NOTHING,
    exactly as exactly,
    number as number,
    percent as percent,
    quantity as quantity,
    signed as signed,
)
from .probability import sampled_rate as sampled_rate
from .published import comparable as comparable, ratio_sentences as ratio_sentences
from .ranks import found_grid as found_grid
from .sections import Section as Section
from .sensitivity import named as named, published_values as published_values, value as value
from .table import rows_csv as rows_csv, write_results as write_results
from .tuning import write_tuning_page as write_tuning_page
from .tuning_text import (
    band_words as band_words,
    beaten_sentence as beaten_sentence,
    chance_text as chance_text,
    errors_sentence as errors_sentence,
    given_words as given_words,
    headroom_sentence as headroom_sentence,
    num_samples as num_samples,
    own_words as own_words,
    searched_sentence as searched_sentence,
    why_sentence as why_sentence,
)
from .validation import write_validation_page as write_validation_page
from .validation_notes import harness_notes as harness_notes, unit_notes as unit_notes
from .validation_text import (
    apart as apart,
    counted as counted,
    validation_findings as validation_findings,
    validation_lead as validation_lead,
    which as which,
)
from .view import StudyView as StudyView
