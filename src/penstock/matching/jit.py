"""Kernels are compiled as those of `language` are."""

from penstock.language.jit import kernel

__all__ = ["kernel"]
