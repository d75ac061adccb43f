"""Sphinx's settings for the manual; `build.py` calls it."""

project = "Tidegate"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Tidegate"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
suppress_warnings = ["misc.highlighting_failure"]
