"""The room of pages: one environment of templates, one palette, one stylesheet and one script for all that is shown.

It knows values, estimates and text, and no log: report, ablation, verifier and view say what is on their pages and
build on it.
"""
