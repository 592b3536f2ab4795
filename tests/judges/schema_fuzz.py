"""schemathesis against /openapi.json of the echo model: all checks, no 5xx and no schema violation.

    python tests/judges/schema_fuzz.py --python PYTHON_WITH_SCHEMATHESIS [--minutes 20] [--seed N]

Exit code 0 when nothing was found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from served import served

# A body of the right shape may still be refused for what it says (400, 422) or names (404); one of the wrong shape never gets a 2xx
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "400", "404", "422"]
negative_data_rejection.expected-statuses = ["400", "401", "404", "405", "413", "415", "422"]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", required=True, help="a Python that has schemathesis")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served("echo") as url:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(CONFIG)
        command = [
            str(Path(args.python).with_name("schemathesis")), "--config-file", str(config), "run", f"{url}/openapi.json", "--checks", "all",
            "--continue-on-failure", "--phases", "examples,coverage,fuzzing,stateful", "--request-timeout", "60", "--warnings", "off",
            "--max-time", str(int(60 * args.minutes)), *(["--seed", str(args.seed)] if args.seed is not None else []),
        ]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
