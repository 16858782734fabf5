"""The calibration of the speed model: measured rows, the fit, and how well it predicts what it has not seen."""
