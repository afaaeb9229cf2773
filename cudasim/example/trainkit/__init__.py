"""Odds and ends of training loops, in two forms: `before` with six device bugs, `after` without.

A test takes the form that the environment variable TRAINKIT names.
"""
