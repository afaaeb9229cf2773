"""To and from other systems: gradebooks, an autograder for Gradescope, links for a class."""
