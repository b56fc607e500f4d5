"""Rolling policies out: the loop, chunk execution, clocks and latency."""
