"""How many passes the requests of each model took, from its statistics: passes.py FILE."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    models = json.load(file)["model_stats"]
told = []
for model in models:
    counts = model["inference_stats"]
    n = counts["success"]["count"] + counts["fail"]["count"]
    told.append("%s %d in %d" % (model["name"], n, model["execution_count"]))
print("; ".join(told))
