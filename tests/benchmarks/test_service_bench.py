"""python -m benchmarks service: small runs of each experiment, against a real service."""

from benchmarks.service import connections, publishing, storing, waiting


def quiet(_):
    return


def test_publishing_and_latency(monkeypatch):
    """Everything that was accepted reaches the reader."""
    found = publishing.measure(["live"], 0.3, quiet)
    assert [(one.match, one.batch) for one in found.figures] == [("live", 1), ("live", 100)]
    assert all(one.events_per_second > 0 for one in found.figures)
    monkeypatch.setattr(waiting, "_WARM_UP", 0.2)
    (reached,) = waiting.measure(["live"], 0.5, quiet).figures
    assert reached.events > 0
    assert 0 < reached.p50_ms <= reached.p99_ms


def test_readers():
    """All of them hear of an event."""
    (found,) = connections.measure([30], quiet).figures
    assert found.connections == 30
    assert found.all_told_ms > 0


def test_feeds(monkeypatch):
    """A reader that was away gets all that it missed."""
    monkeypatch.setattr(storing, "_ROWS", 100)
    monkeypatch.setattr(storing, "AWAY", 500)
    found = storing.measure(quiet).figures
    assert [one.notifications for one in found] == [131 * 2000, 2000, 500]
