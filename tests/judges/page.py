"""The page at / in headless Chromium: starts two servers, one with a key, and lets `page_browser.py` drive the page in its own environment.

    python tests/judges/page.py --browser PYTHON_WITH_PYSIDE6 [--model echo]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.trouble.serving import serving

KEY = "page-key"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--browser", required=True)
    parser.add_argument("--model", default="echo")
    args = parser.parse_args()
    with serving(args.model) as plain, serving(args.model, "--api-key", KEY) as keyed:
        script = Path(__file__).with_name("page_browser.py")
        return subprocess.run([args.browser, str(script), plain.url, keyed.url, KEY], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
