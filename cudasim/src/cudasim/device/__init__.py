"""Simulated GPUs: their types, cards, memory and random numbers."""
