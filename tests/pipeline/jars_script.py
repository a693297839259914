"""Kafka, checkpoints in S3 and Delta tables: their stories one after the other, on one Spark with the jars of all.

Run by test_jars.py, which says what there is: `{"kafka": {"jars": …, "address": …, "database": …}, "s3": …}`.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.pipeline import local_session

from . import delta_script, kafka_script, s3_script
from .elsewhere import message_of, tell

Given = dict[str, dict[str, str]]


def main(folder: Path, given: Given) -> None:
    config = {"spark.jars": ",".join(part["jars"] for part in given.values() if "jars" in part)}
    if "s3" in given:
        config |= s3_script.config(given["s3"]["server"])
    spark = session(config, given)
    if "kafka" in given:
        kafka = given["kafka"]
        told = kafka_script.find_out(folder / "kafka", spark, kafka["address"], kafka["database"])
        tell(kafka=told)
    if "s3" in given:
        tell(s3=s3_script.find_out(folder / "s3", spark, given["s3"]["server"]))
    if "delta" in given:
        tell(delta_first=delta_script.begin(folder / "delta", spark))
        tell(delta=delta_script.go_on(folder / "delta", spark))
    spark.stop()


def session(config: dict[str, str], given: Given) -> SparkSession:
    """With Delta's jar, or without: then Delta isn't there, and it is told why."""
    if "delta" in given:
        package = delta_script.package()
        sessions: list[SparkSession] = []
        more = {"spark.jars.packages": package, **delta_script.CONFIG}
        problem = message_of(
            lambda: sessions.append(local_session("local[2]", config={**config, **more}))
        )
        if problem is None:
            return sessions[0]
        del given["delta"]
        tell(no_delta=f"{package} can't be had here: {problem.splitlines()[0]}")
    return local_session("local[2]", config=config)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
