"""The report of a study: tables, verdicts on the paper's claims, curves and pictures, as Markdown and HTML."""
