"""People at the controls: the simulated operator today, devices and the station around the same protocol."""
