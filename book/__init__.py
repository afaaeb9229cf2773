"""The pages in prose, and the tools that make the book."""
