"""The programs: every function of these files is one, and its name says what it shows.

A program returns what JSON can hold: numbers, texts, truth values, lists. It must answer alike
on every card, so it returns no name of a card, no memory of one, no address and no time; it
leaves torch as it found it. One GPU is enough for it unless `@gpus` says otherwise.
"""
