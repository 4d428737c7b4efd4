"""Pages of the administration in addition to Django's: overview, activity, application, person and others."""
