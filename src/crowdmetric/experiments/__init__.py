"""The paper's experiments: settings, learners, and the runner that keeps what is finished."""
