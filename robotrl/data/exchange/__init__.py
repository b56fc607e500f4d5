"""Episodes in the formats of others: LeRobotDataset v3 and robomimic's HDF5, both ways."""
