"""Effects, one kind each: devices, scripts, workers, gateways, files."""
