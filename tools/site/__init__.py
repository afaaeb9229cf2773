"""What readers see: pages made of chapters and recordings, and the site."""
