"""What the book is made from: chapters, their figures, setup cells and links."""
