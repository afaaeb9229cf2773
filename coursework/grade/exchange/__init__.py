"""To and from other systems: gradebooks, an autograder for Gradescope."""
