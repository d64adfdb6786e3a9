"""How answers are asked for and shown: command line, Python, report, live page, exports."""
