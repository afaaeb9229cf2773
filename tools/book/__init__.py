"""What the book is made from: chapters, their figures, set-up cells and links."""
