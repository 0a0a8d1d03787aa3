"""The pages of ``fedperc report``: runs, demos and studies, one or many, in one HTML file."""
