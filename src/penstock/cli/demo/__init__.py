"""The main job, live: market ticks against 20,000 subscriptions on local Spark."""

from penstock.cli.demo.show import run_demo

__all__ = ["run_demo"]
