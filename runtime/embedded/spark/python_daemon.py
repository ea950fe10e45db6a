"""Program that Spark runs for pyspark.daemon, which it becomes, in UTC: it forks the processes of UDFs."""

import os
import runpy
import time

# Here, not in the server's environment: Java's zone is that of Spark's sessions, which stays the machine's.
os.environ["TZ"] = "UTC"
time.tzset()
runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
