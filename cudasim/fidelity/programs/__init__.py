"""The programs: each function here is one, and its name says what it shows.

A program returns what JSON can hold. It must answer alike on every card, so it returns no
name, address, time or total memory, and it leaves torch as it found it.
"""
