#!/usr/bin/env python3
"""Times PyTorch on one case after the other: peer_torch.py THREADS SECONDS [NAME]

Reads ids of cases from standard input, a line each; writes one JSON object a variant and "end" after
each line. "gradient ID" asks for a forward with the gradients of all inputs and parameters. NAME tells
this process's setting apart from others in the name of a variant.

Variants: `manual`, the layer as one writes it with Linear, matmul and softmax; `jit`, the same traced
and, for inference, frozen and optimised; `module`, torch.nn.MultiheadAttention, which has a fused path
for inference. Every variant is checked against `manual` before it is timed.
"""
import functools
import json
import math
import sys
import time

import torch
from torch import nn

import cases

THREADS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
SETTING = f"/{sys.argv[3]}" if len(sys.argv) > 3 else ""
torch.set_num_threads(THREADS)
torch.manual_seed(1)


def timed(run):
    """As timing.c does it."""
    start, times = time.perf_counter(), []
    for i in range(200):
        run()
        if time.perf_counter() - start > 0.05:
            break
    start = time.perf_counter()
    while len(times) < 20000:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
        enough = 3 if max(times[:3]) > 0.5 else 5
        if len(times) >= enough and time.perf_counter() - start > SECONDS:
            break
    times.sort()
    return {"n": len(times), "min_us": 1e6 * times[0], "median_us": 1e6 * times[len(times) // 2]}


class Manual(nn.Module):
    """query [B,Q,D], key and value [B,K,D], mask (True: blocked) that spreads over [B,H,Q,K]."""

    def __init__(self, c):
        super().__init__()
        self.h, self.scale = c.H, c.scale
        self.own, self.memory, self.out = c.projects_query, c.projects_memory, c.projects_output
        self.fused = c.layer == "causal_mha"
        if self.fused:
            self.qkv = nn.Linear(c.D, 3 * c.D, bias=c.bias)
        elif self.own:
            self.q = nn.Linear(c.D, c.D, bias=c.bias)
        if self.memory and not self.fused:
            self.k, self.v = (nn.Linear(c.D, c.D, bias=c.bias) for _ in range(2))
        if self.out:
            self.o = nn.Linear(c.D, c.D, bias=c.bias)

    def project(self, query, key, value):
        if self.fused:
            return self.qkv(query).chunk(3, -1)
        return (self.q(query) if self.own else query,
                self.k(key) if self.memory else key, self.v(value) if self.memory else value)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], self.h, -1).transpose(1, 2)

    def forward(self, query, key, value, *mask):
        q, k, v = (self.heads(x) for x in self.project(query, key, value))
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        if mask:
            scores = scores.masked_fill(mask[0], -math.inf)
        y = torch.matmul(torch.softmax(scores, -1), v)
        y = y.transpose(1, 2).reshape(query.shape)
        return self.o(y) if self.out else y


class Relational(nn.Module):
    """Inputs [B,L,H,d] come projected; edges add bias . key to scores, and value biases to the result.
    Scores are kept with heads first, so that softmax and products read along rows, or heads last, where an
    edge's scores lie together; they are the same numbers."""

    def __init__(self, c):
        super().__init__()
        self.shape = (-1, c.H, c.D // c.H)
        self.key_bias, self.value_bias = (nn.Embedding(cases.EDGE_TYPES, c.D) for _ in range(2))
        self.o = nn.Linear(c.D, c.D, bias=False)

    def forward(self, q, k, v, blocked, edges, types, heads_first):
        sample, query, key = edges.unbind(1)
        scores = torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1))
        last = scores.permute(0, 2, 3, 1)
        if not heads_first:
            last = last.contiguous()
            scores = last.permute(0, 3, 1, 2)
        bias = (self.key_bias(types).view(self.shape) * k[sample, key]).sum(-1)
        last.index_put_((sample, query, key), bias, accumulate=True)
        p = torch.softmax(scores.masked_fill_(blocked[:, None, None, :], -math.inf), -1)
        y = torch.matmul(p, v.transpose(1, 2)).transpose(1, 2).contiguous()
        y.index_put_((sample, query), p.permute(0, 2, 3, 1)[sample, query, key].unsqueeze(-1) *
                     self.value_bias(types).view(self.shape), accumulate=True)
        return self.o(y.flatten(2))


class Forwards:
    """The ways to run the layer of a case: functions without arguments by name. What each depends on is
    in `leaves`, inputs first and then parameters, in one order for all of them."""

    def __init__(self, c, training):
        self.c, self.training = c, training
        self.runs, self.leaves = {}, {}

    def rows(self, *shape, size=0.5):
        return (torch.randn(shape) * size).requires_grad_(self.training)

    def prepare(self, layer):
        return layer.train(self.training)

    def add(self, name, run, leaves):
        self.runs[name], self.leaves[name] = run, leaves


def add_relational(forwards):
    c = forwards.c
    q, k, v = (forwards.rows(c.B, c.Q, c.H, c.D // c.H, size=0.3) for _ in range(3))
    blocked = torch.zeros(c.B, c.K, dtype=torch.bool)
    blocked[:, -6:] = True
    n = c.B * cases.EDGES_PER_SAMPLE
    edges = torch.stack([torch.arange(c.B).repeat_interleave(cases.EDGES_PER_SAMPLE),
                         torch.randint(c.Q, (n,)), torch.randint(c.K, (n,))], 1)
    layer = forwards.prepare(Relational(c))
    types = torch.randint(cases.EDGE_TYPES, (n,))
    leaves = [q, k, v, *layer.parameters()]
    forwards.add("manual", lambda: layer(q, k, v, blocked, edges, types, False), leaves)
    forwards.add("manual-heads-first", lambda: layer(q, k, v, blocked, edges, types, True), leaves)


def add_module(forwards, manual, query, key, masks):
    """The layer as torch.nn has it, with the same weights."""
    c = forwards.c
    layer = forwards.prepare(nn.MultiheadAttention(c.D, c.H, batch_first=True))
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.cat([manual.q.weight, manual.k.weight, manual.v.weight]))
        layer.in_proj_bias.copy_(torch.cat([manual.q.bias, manual.k.bias, manual.v.bias]))
        layer.out_proj.weight.copy_(manual.o.weight)
        layer.out_proj.bias.copy_(manual.o.bias)
    inputs = [query] if key is query else [query, key]
    leaves = inputs + [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    forwards.add("module", lambda: layer(query, key, key, need_weights=False, **masks)[0], leaves)


def traced(forwards, manual, inputs):
    result = torch.jit.trace(manual, inputs, check_trace=False)
    return result if forwards.training else torch.jit.optimize_for_inference(result)


def leaves_of(manual, inputs):
    """Weights before biases, as torch.nn.MultiheadAttention has them."""
    given = {id(x): x for x in inputs if x.dtype == torch.float32}
    names = [n for n in ("qkv", "q", "k", "v") if hasattr(manual, n)]
    first = [p for kind in ("weight", "bias") for p in (getattr(getattr(manual, n), kind) for n in names)]
    last = list(manual.o.parameters()) if manual.out else []
    return list(given.values()) + [p for p in first + last if p is not None]


def make_forwards(c, training):
    forwards = Forwards(c, training)
    if c.relational:
        add_relational(forwards)
        return forwards
    query = forwards.rows(c.B, c.Q, c.D)
    key = query if c.mode == "self" else forwards.rows(c.B, c.K, c.D)
    value = key if c.projects_memory else forwards.rows(c.B, c.K, c.D)
    mask, masks = (), {}
    if c.mask == "key":
        blocked = torch.rand(c.B, c.K) < 0.3
        blocked[:, 0] = False
        mask, masks = (blocked[:, None, None, :],), {"key_padding_mask": blocked}
    elif c.mask == "causal":
        ahead = torch.ones(c.Q, c.K, dtype=torch.bool).triu(1)
        mask, masks = (ahead,), {"attn_mask": ahead}
    manual = forwards.prepare(Manual(c))
    inputs = (query, key, value) + mask
    leaves = leaves_of(manual, inputs)
    forwards.add("manual", lambda: manual(*inputs), leaves)
    if c.layer == "plain" and c.projects_memory:
        add_module(forwards, manual, query, key, masks)
    if c.Q < 2048:
        function = traced(forwards, manual, inputs)
        forwards.add("jit", lambda: function(*inputs), leaves)
    return forwards


def report(case, runs, result_of):
    """Time the runs whose result is that of `manual`."""
    expected = result_of("manual")
    for name, run in runs.items():
        off = float((result_of(name) - expected).abs().max() / expected.abs().max())
        if off > 1e-4:
            print(f"torch: {case}: {name} differs by {off:.1e}, not timed", file=sys.stderr)
            continue
        print(json.dumps(dict(timed(run), case=case, peer="torch", variant=name + SETTING, threads=THREADS)))


@torch.inference_mode()
def measure(c):
    runs = make_forwards(c, training=False).runs
    report(c.id, runs, lambda name: runs[name]())


def measure_gradients(c):
    forwards = make_forwards(c, training=True)
    cotangent = torch.randn(c.B, c.Q, c.D)
    runs = {name: functools.partial(lambda run, leaves: torch.autograd.grad(run(), leaves, cotangent),
                                    run, forwards.leaves[name])
            for name, run in forwards.runs.items()}
    report(f"gradient {c.id}", runs, lambda name: torch.cat([g.flatten() for g in runs[name]()]))


def main():
    known = cases.read()
    for line in sys.stdin:
        what, _, name = line.strip().rpartition(" ")
        if name == "version":
            print(json.dumps({"version": torch.__version__}))
        elif what == "gradient":
            measure_gradients(known[name])
        else:
            measure(known[name])
        print("end", flush=True)


main()
