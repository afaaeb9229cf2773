"""What is known of `cudasim`: data, as recorded, and tables of it in Markdown."""
