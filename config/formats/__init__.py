"""How Django writes dates in each language where its own way does not fit: days before months, 24 hours, always UTC."""
