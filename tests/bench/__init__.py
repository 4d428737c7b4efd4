"""What each operation costs, measured on this machine against a bare Django view: `make bench`. Linux only (/proc)."""
