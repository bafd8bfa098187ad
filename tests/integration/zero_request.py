"""An infer request of zeros from a model's metadata: zero_request.py FILE. Optional inputs stay out;
an axis of any size is 4."""
import json
import math
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    metadata = json.load(file)
inputs = []
for port in metadata["inputs"]:
    if not port.get("optional"):
        shape = [4 if axis < 0 else axis for axis in port["shape"]]
        tensor = {"name": port["name"], "datatype": port["datatype"], "shape": shape}
        inputs.append({**tensor, "data": [0] * math.prod(shape)})
print(json.dumps({"inputs": inputs}))
