"""Grades submissions: reads them, runs them in a sandbox, judges from outside, reports."""
