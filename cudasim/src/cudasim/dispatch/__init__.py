"""What happens at each operation: checks, computation, and where results live."""
