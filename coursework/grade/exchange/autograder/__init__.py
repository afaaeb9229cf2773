"""What runs at Gradescope: set up by `setup.sh`, called by `run_autograder`, both as root."""
