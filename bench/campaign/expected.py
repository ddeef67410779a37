"""Makes what the models' results are compared with: usage: expected.py CAMPAIGN_WORKER. Runs each
call of ladder.model_sweep on this machine's CPU and keeps some rows under expected/."""
import json
import subprocess
import sys

import ladder


def main():
    ladder.EXPECTED.mkdir(exist_ok=True)
    cases = [{**case, "record": True} for case in ladder.model_sweep()]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([sys.argv[1], "--device", "cpu", "--quiet"], input=lines,
                          capture_output=True, text=True, check=False)
    ends = [each for each in map(json.loads, done.stdout.splitlines()) if "end" in each]
    for end in ends:
        print(json.dumps(end))
    return 0 if len(ends) == len(cases) and not any("error" in end or not end.get("right", True)
                                                    for end in ends) else done.stderr or 1


if __name__ == "__main__":
    sys.exit(main())
