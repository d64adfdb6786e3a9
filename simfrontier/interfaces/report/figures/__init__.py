"""Charts of findings, as plotly figures."""
