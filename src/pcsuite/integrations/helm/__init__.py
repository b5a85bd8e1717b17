"""HELM as an independent witness: its scenarios on our models, its figures beside ours."""
