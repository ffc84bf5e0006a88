"""``nearcast pipeline`` as a job of spark-submit, whose master and settings it takes over.

spark-submit --master spark://host:7077 examples/spark_submit.py run logs/ --out /shared/run
"""

import sys

from nearcast.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["pipeline"]
    main()
