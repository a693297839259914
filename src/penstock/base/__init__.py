"""Code that every room may use: arrays, kernels, numbers, files, durations, errors. It imports no room."""
