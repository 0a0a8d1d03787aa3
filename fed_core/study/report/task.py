"""What the report of one task brings, so that the page needs to know no task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fed_core.study.report.document import Section, Table
from fed_core.study.report.results import Study
from fed_core.study.report.verdicts import Part


@dataclass(frozen=True)
class TaskReport:
    """The pieces of one task.

    Attributes:
        rendered: what the generator made beside each image, such as "depth".
        tested: caption of the list of test sequences.
        methods: settings of the head that only this task shows, before the table of all settings.
        sections: all sections after the head, of a study with at least one finished run.
        short: tables of one model for a terminal; all have the same header.
        claims: the paper's claims with their comparisons.
    """

    rendered: str
    tested: str
    methods: Callable[[Study], Sequence[Table]]
    sections: Callable[[Study], list[Section]]
    short: Callable[[Study, str], list[Table]]
    claims: Callable[[Study], list[Part]]
