"""`sim` must come before `mujoco`: it chooses how MuJoCo draws."""

import sim as sim
