#!/usr/bin/env bash
# A time in a UDF with useArrow=True is in another zone with PySpark 4.3.0 than with 4.0.5.
# Guess: a datetime in a UDF is in the Python process's zone, with Arrow as without it, in both versions.
# Seen, with 1970-01-01 00:00 UTC, a process in Asia/Tokyo and spark.sql.session.timeZone America/Sao_Paulo:
#   4.0.5  without Arrow 1970-01-01T09:00:00 (Tokyo)    with it 1969-12-31T21:00:00 (Sao Paulo)
#   4.3.0  without Arrow 1970-01-01T09:00:00 (Tokyo)    with it 1970-01-01T09:00:00 (Tokyo)
# So `moment.hour` or `moment.date()` in such a UDF changes with the upgrade, and nothing says so. A time that is
# given back is right in both.
# Runs in a temporary folder, with pandas 2.3.3 and pyarrow 26.0.1, and needs Java 17 or 21. Exits 0 where that is
# so, 1 where it isn't any more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/udf.py" <<'PYTHON'
import os
import sys
import time

os.environ |= {"TZ": "Asia/Tokyo", "PYSPARK_PYTHON": sys.executable}
time.tzset()
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf, unix_micros

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.session.timeZone", "America/Sao_Paulo").getOrCreate()
row = spark.sql("SELECT timestamp_micros(0) AS moment")
for use_arrow in (False, True):
    show = udf(lambda moment: moment.isoformat(), "string", useArrow=use_arrow)
    same = udf(lambda moment: moment, "timestamp", useArrow=use_arrow)
    print(*row.select(show("moment"), unix_micros(same("moment"))).first())
PYTHON
seen() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" install --quiet --disable-pip-version-check "pyspark==$1" pandas==2.3.3 pyarrow==26.0.1
    (cd "$folder" && "$folder/$1/bin/python" udf.py 2>/dev/null)
}
old=$(seen 4.0.5)
new=$(seen 4.3.0)
printf 'PySpark 4.0.5, without Arrow and with it:\n%s\nPySpark 4.3.0:\n%s\n' "$old" "$new"
[ "$old" = $'1970-01-01T09:00:00 0\n1969-12-31T21:00:00 0' ] && [ "$new" = $'1970-01-01T09:00:00 0\n1970-01-01T09:00:00 0' ]
