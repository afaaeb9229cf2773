"""The exercises of the book: their masters and editions, and how answers to them are graded."""
