"""Reports of a study: the page that a person reads, the table and the manifest that a program reads."""

from simfrontier.interfaces.report.drawing import scaling_drawing as scaling_drawing
from simfrontier.interfaces.report.figures.breakdown import PARTS as PARTS
from simfrontier.interfaces.report.figures.links import WHOLE as WHOLE, drawn_use as drawn_use
from simfrontier.interfaces.report.figures.memory import drawn_memory as drawn_memory
from simfrontier.interfaces.report.figures.timeline import (
    SPAN_COLOURS as SPAN_COLOURS,
    kind_of as kind_of,
    lanes_of as lanes_of,
    op_name as op_name,
)
from simfrontier.interfaces.report.findings.compression import (
    CompressedPlan as CompressedPlan,
    compressed_plans as compressed_plans,
)
from simfrontier.interfaces.report.findings.crosscheck import crosscheck_findings as crosscheck_findings
from simfrontier.interfaces.report.findings.explanation import (
    EQUAL as EQUAL,
    LITTLE as LITTLE,
    first_that_fits as first_that_fits,
    shares_of as shares_of,
    shown_differences as shown_differences,
    shown_parts as shown_parts,
)
from simfrontier.interfaces.report.findings.headline import headline_of as headline_of
from simfrontier.interfaces.report.findings.published import PublishedFigure as PublishedFigure
from simfrontier.interfaces.report.findings.slowdown import slowdown_rows as slowdown_rows, worst_rows as worst_rows
from simfrontier.interfaces.report.findings.study import (
    Findings as Findings,
    findings_of as findings_of,
    write_findings as write_findings,
)
from simfrontier.interfaces.report.findings.tuning import TuningFindings as TuningFindings
from simfrontier.interfaces.report.manifest import write_manifest as write_manifest
from simfrontier.interfaces.report.node import node_drawing as node_drawing
from simfrontier.interfaces.report.page import study_page as study_page, write_page as write_page
from simfrontier.interfaces.report.pages import (
    calibration_page as calibration_page,
    crosscheck_page as crosscheck_page,
    explanation_page as explanation_page,
    goodput_csv as goodput_csv,
    goodput_page as goodput_page,
    live_page as live_page,
    runs_page as runs_page,
    validation_page as validation_page,
)
from simfrontier.interfaces.report.phrases import (
    NOT_RUN as NOT_RUN,
    NOTHING as NOTHING,
    distance as distance,
    exactly as exactly,
    fitted_words as fitted_words,
    number as number,
    options as options,
    percent as percent,
    percent_between as percent_between,
    quantity as quantity,
    signed as signed,
    signed_seconds as signed_seconds,
)
from simfrontier.interfaces.report.render import said as said
from simfrontier.interfaces.report.sections import Section as Section
from simfrontier.interfaces.report.summary import (
    assumed as assumed,
    chart as chart,
    rate_cells as rate_cells,
    summary_html as summary_html,
    summary_text as summary_text,
    verdict as verdict,
)
from simfrontier.interfaces.report.sweep import write_sweep_page as write_sweep_page
from simfrontier.interfaces.report.table import (
    SLOWDOWN_FILE as SLOWDOWN_FILE,
    rows_csv as rows_csv,
    write_results as write_results,
    write_slowdown as write_slowdown,
)
from simfrontier.interfaces.report.theme import MEMORY_COLOURS as MEMORY_COLOURS
from simfrontier.interfaces.report.troubles import troubles_in_short as troubles_in_short
from simfrontier.interfaces.report.tuning import (
    BEST as BEST,
    TUNING_FILES as TUNING_FILES,
    tuning_document as tuning_document,
    write_tuning as write_tuning,
)
from simfrontier.interfaces.report.view import StudyView as StudyView, result_row as result_row
