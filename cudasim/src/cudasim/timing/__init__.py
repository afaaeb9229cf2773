"""How long work takes on a card, by its data sheet: pure arithmetic, without torch."""
