"""Lecture slides: a deck for each chapter, made of its cells and of what they printed."""
