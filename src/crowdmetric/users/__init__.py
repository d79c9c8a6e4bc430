"""How a person is eliminated: each module turns unseen ideal points into an objective in the metric alone."""
