"""Sessions of browsers: stored, shown, ended; and the browsers that are known."""
