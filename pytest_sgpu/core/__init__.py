"""Pure values in, pure values out: no pytest, execnet, os, time, threads or files."""
