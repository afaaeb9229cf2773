"""What grades submissions: read, spliced, run in a sandbox, judged from outside, reported."""
