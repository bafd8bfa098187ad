#!/usr/bin/env python3
"""Times PyTorch on one case after the other: peer_torch.py THREADS SECONDS [NAME]

Reads ids of cases from standard input, a line each; writes one JSON object a variant and "end" after
each line. NAME tells this process's setting apart from others in the name of a variant.

Variants: `manual`, the layer as one writes it with Linear, matmul and softmax; `jit`, the same traced,
frozen and optimised for inference; `module`, torch.nn.MultiheadAttention, which has a fused path for
inference. Every variant is checked against `manual` before it is timed.
"""
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


def relational(c):
    rows = (c.B, c.Q, c.H, c.D // c.H)
    q, k, v = (torch.randn(rows) * 0.3 for _ in range(3))
    blocked = torch.zeros(c.B, c.K, dtype=torch.bool)
    blocked[:, -6:] = True
    n = c.B * cases.EDGES_PER_SAMPLE
    edges = torch.stack([torch.arange(c.B).repeat_interleave(cases.EDGES_PER_SAMPLE),
                         torch.randint(c.Q, (n,)), torch.randint(c.K, (n,))], 1)
    layer = Relational(c).eval()
    types = torch.randint(cases.EDGE_TYPES, (n,))
    return {"manual": lambda: layer(q, k, v, blocked, edges, types, False),
            "manual-heads-first": lambda: layer(q, k, v, blocked, edges, types, True)}


def module(c, manual, query, key, masks):
    """The layer as torch.nn has it, with the same weights."""
    layer = nn.MultiheadAttention(c.D, c.H, batch_first=True).eval()
    layer.in_proj_weight.copy_(torch.cat([manual.q.weight, manual.k.weight, manual.v.weight]))
    layer.in_proj_bias.copy_(torch.cat([manual.q.bias, manual.k.bias, manual.v.bias]))
    layer.out_proj.weight.copy_(manual.o.weight)
    layer.out_proj.bias.copy_(manual.o.bias)
    return lambda: layer(query, key, key, need_weights=False, **masks)[0]


def variants(c):
    if c.relational:
        return relational(c)
    query = torch.randn(c.B, c.Q, c.D) * 0.5
    key = query if c.mode == "self" else torch.randn(c.B, c.K, c.D) * 0.5
    value = key if c.projects_memory else torch.randn(c.B, c.K, c.D) * 0.5
    mask, masks = (), {}
    if c.mask == "key":
        blocked = torch.rand(c.B, c.K) < 0.3
        blocked[:, 0] = False
        mask, masks = (blocked[:, None, None, :],), {"key_padding_mask": blocked}
    elif c.mask == "causal":
        ahead = torch.ones(c.Q, c.K, dtype=torch.bool).triu(1)
        mask, masks = (ahead,), {"attn_mask": ahead}
    manual = Manual(c).eval()
    inputs = (query, key, value) + mask
    found = {"manual": lambda: manual(*inputs)}
    if c.layer == "plain" and c.projects_memory:
        found["module"] = module(c, manual, query, key, masks)
    if c.Q < 2048:
        traced = torch.jit.optimize_for_inference(torch.jit.trace(manual, inputs, check_trace=False))
        found["jit"] = lambda: traced(*inputs)
    return found


def measure(c):
    found = variants(c)
    expected = found["manual"]()
    for name, run in found.items():
        off = float((run() - expected).abs().max() / expected.abs().max())
        if off > 1e-4:
            print(f"torch: {c.id}: {name} differs by {off:.1e}, not timed", file=sys.stderr)
            continue
        print(json.dumps(dict(timed(run), case=c.id, peer="torch", variant=name + SETTING, threads=THREADS)))


def main():
    known = cases.read()
    with torch.inference_mode():
        for line in sys.stdin:
            if line.strip() == "version":
                print(json.dumps({"version": torch.__version__}))
            else:
                measure(known[line.strip()])
            print("end", flush=True)


main()
