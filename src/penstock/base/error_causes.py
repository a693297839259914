"""Finds the line that says what went wrong in an error that Spark passed on, with stack traces of Java and Python."""


def cause(error: Exception) -> str:
    """The line that says what went wrong. Stack traces may be nested: a Java one around a Python one around a Java one.

    >>> cause(Exception("failed\\n at a\\nCaused by: java.io.IOException: No space left on device\\n at b"))
    'java.io.IOException: No space left on device'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("penstock.base.errors.")]
    python = [
        line
        for line in lines
        if line.partition(":")[0].endswith(("Error", "Exception")) and not line.startswith(_RELAYED)
    ]
    java = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    found = ours or python or java
    return found[-1] if found else (lines or ["unknown"])[0]


_RELAYED = (
    "py4j.protocol.Py4JJavaError:"  # what Python says of an error of Java's, without saying which
)
_CAUSED = "Caused by: "
