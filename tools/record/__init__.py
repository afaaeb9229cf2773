"""What executes chapters: runners, cards, and the recordings that they leave."""
