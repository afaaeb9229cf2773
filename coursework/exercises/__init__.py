"""Makes the editions of the exercises from their masters, and refuses those that do not hold."""
