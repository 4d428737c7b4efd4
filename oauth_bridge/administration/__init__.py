"""The administration's own pages: overview, activity, and the pages of an application and of a person."""
