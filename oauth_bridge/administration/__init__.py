"""The administration: the site, its own pages, and the Django admin pages of applications and people."""
