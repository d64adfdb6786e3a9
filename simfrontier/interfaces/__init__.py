"""User interfaces: command line, Python, report, live page, exports."""
