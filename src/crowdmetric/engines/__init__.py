"""Where arrays live and where jobs run."""
