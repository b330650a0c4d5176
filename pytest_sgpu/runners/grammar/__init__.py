"""How labels of runners are built, and the profiles that name them: tables of the pools file."""
