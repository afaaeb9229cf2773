"""The tools that execute the chapters, keep their outputs and draw the site."""
