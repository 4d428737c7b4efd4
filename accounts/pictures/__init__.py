"""Pictures: received, decoded, stored, served."""
