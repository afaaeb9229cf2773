"""What every chapter keeps to, by kind of cell."""
