"""The command line of stores: `robotrl data <command>`."""
