"""Replacements for attributes of torch that every type of device shares."""
