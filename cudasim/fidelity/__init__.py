"""Small programs that a real GPU has answered, and that `cudasim` must answer alike."""
