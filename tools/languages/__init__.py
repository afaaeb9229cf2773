"""The book in other languages: what is to be translated, and the translations of it."""
