"""What is measured, as cases.txt lists it; the same facts as cases.h gives the C programs."""
import pathlib
from types import SimpleNamespace

FILE = pathlib.Path(__file__).with_name("cases.txt")
EDGES_PER_SAMPLE, EDGE_TYPES = 2048, 16


def read():
    """All cases by id, in the file's order."""
    cases = {}
    for line in FILE.read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        c = SimpleNamespace(id=words[0], layer=words[1], mode=words[7], mask=words[8], what=words[9],
                            gradients=words[10])
        c.B, c.Q, c.K, c.D, c.H = (int(word) for word in words[2:7])
        c.relational = c.layer == "relational_mha"
        c.bias = c.layer not in ("routing_mha_proj", "relational_mha")
        c.projects_query = c.mode != "core"
        c.projects_memory = c.mode in ("self", "cross")
        c.projects_output = c.relational or (c.mode != "core" and c.layer != "causal_mha")
        c.scale = {"speech_mha": c.D, "causal_mha": c.D, "relational_mha": 1}.get(c.layer, c.D // c.H) ** -0.5
        cases[c.id] = c
    return cases


def flop(c):
    """Two for each multiply-add of projections, the two products of attention and the edges; causal
    counts as dense, softmax is not counted."""
    total = 4 * c.B * c.Q * c.K * c.D
    total += 2 * c.B * c.Q * c.D ** 2 * (c.projects_query + c.projects_output)
    total += 4 * c.B * c.K * c.D ** 2 * c.projects_memory
    return total + 4 * c.B * EDGES_PER_SAMPLE * c.D * c.relational
