"""The report of a study: tables, verdicts on the paper's claims, curves and pictures, as Markdown and HTML."""

from fed_core.study.report.page import publish, summary, write_report

__all__ = ["publish", "summary", "write_report"]
