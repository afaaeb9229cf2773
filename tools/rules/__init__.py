"""What every chapter keeps to. Nothing but `python -m tools rules` needs these modules."""
