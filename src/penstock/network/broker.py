"""A broker: message and time in, messages out."""

from penstock.network.broker_settings import BrokerSettings
from penstock.network.messages import Input, Output


class Broker:
    """See the module. One caller at a time."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings

    def step(self, given: Input, now: float) -> list[Output]:
        """Take one input; what is to be done, in this order.

        `now` is in seconds on a clock that never goes back. The first input is `Start`, given once. A frame or a
        request that can't be read is answered or noticed, and never raises.
        """
        raise NotImplementedError
