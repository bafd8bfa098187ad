"""Sequences: what a step costs with keys and values kept, beside sending everything again."""
import serve_models
from serve_process import Request, count, daemon, draw, floats, message, milliseconds, ratio, run_load, table

WIDTH = 128
TOLERANCE = 1e-4


def row(content, index):
    return content[4 * WIDTH * index:4 * WIDTH * (index + 1)]


def step(content, index, n_steps, sequence):
    """One token of a growing sequence."""
    place = {"sequence_id": sequence, "sequence_start": index == 0, "sequence_end": index == n_steps - 1}
    return Request("growing", [("input", [1, 1, WIDTH], row(content, index))], place)


def is_offered(server):
    content = draw(WIDTH)
    status, text = step(content, 0, 1, 1).send(server.connect())
    if status != 200:
        message(f"bench: sequences left out: the daemon answers {status} {text}")
    return status == 200


def difference(server):
    """Of all steps one by one from one whole forward, as a share of the largest number."""
    n = serve_models.STEPS
    content, connection = draw(n * WIDTH), server.connect()
    whole = floats(Request("growing", [("input", [1, n, WIDTH], content)]).send(connection)[1])
    largest, off = max(abs(x) for x in whole), 0
    for i in range(n):
        status, answer = step(content, i, n, 2).send(connection)
        if status != 200:
            raise RuntimeError(f"step {i}: {status} {answer}")
        expected = whole[i * WIDTH:(i + 1) * WIDTH]
        off = max(off, max(abs(x - y) for x, y in zip(floats(answer), expected)))
    return off / largest


def growing(load, server, seconds):
    n = serve_models.STEPS
    off = difference(server)
    print(f"\na sequence that grows to {n} steps, {WIDTH} wide, 8 heads, one client: ms for a step\n")
    print(f"all steps beside one forward of all of it: largest difference {off:.0e}" +
          ("" if off <= TOLERANCE else f", over {TOLERANCE:.0e}: WRONG") + "\n")
    words = ["--model=growing", f"--steps={n}", f"--seconds={seconds}", "--warm=0.5"]
    kept = run_load(load, server, *words, f"--input=input:FP32:1x1x{WIDTH}")[0]
    rows = [["step", "kept", "all sent again", "ratio"]]
    total_kept, total_again = 0, 0
    for part, us in enumerate(kept["steps_us"]):
        length = (2 * part + 1) * n // 20
        words = ["--model=growing", f"--seconds={float(seconds) / 3}", "--warm=0.2"]
        again = run_load(load, server, *words, f"--input=input:FP32:1x{length}x{WIDTH}")[0]
        total_kept, total_again = total_kept + us, total_again + again["p50_us"]
        rows.append([str(length), milliseconds(us), milliseconds(again["p50_us"]), ratio(again["p50_us"], us)])
    rows.append(["mean", milliseconds(total_kept / 10), milliseconds(total_again / 10), ratio(total_again, total_kept)])
    table(rows)
    report_failures("growing", kept)


def fixed(load, server, seconds):
    nodes = serve_models.NODES
    query, mask = f"q:FP32:1x1x{WIDTH}", f"mask:BOOL:1x1x{nodes}"
    context = f"h:FP32:1x{nodes}x{WIDTH}"
    print(f"\na fixed context: 100 steps over {nodes} nodes, {WIDTH} wide, 8 heads, a mask with each step\n")
    rows = [["clients", "kept req/s", "p50 ms", "h sent again req/s", "p50 ms", "ratio of req/s", "of p50"]]
    for clients in 1, 16:
        words = ["--model=routing", f"--input={query}", f"--input={mask}"]
        words += [f"--seconds={seconds}", "--warm=0.5", f"--connections={clients}"]
        kept = run_load(load, server, *words, f"--start-input={context}", "--steps=100")[0]
        again = run_load(load, server, *words, f"--input={context}")[0]
        rows.append([str(clients), count(kept["rps"]), milliseconds(kept["p50_us"]), count(again["rps"]),
                     milliseconds(again["p50_us"]), ratio(kept["rps"], again["rps"]),
                     ratio(again["p50_us"], kept["p50_us"])])
        report_failures("fixed", kept)
    table(rows)


def report_failures(name, part):
    if part["failed"]:
        print(f"{name}: {part['failed']} of {part['failed'] + part['good']} requests failed: {part['statuses']}, "
              f"{part['wrong']} wrong")


def run(program, load, scratch, seconds):
    serve_models.write_sequences(f"{scratch}/sequences")
    server = daemon(program, f"{scratch}/sequences", log=f"{scratch}/sequences.log")
    probe = Request("routing", [("q", [1, 1, WIDTH], draw(WIDTH))])
    server.start(lambda connection: probe.send(connection)[0] == 200)
    try:
        if is_offered(server):
            growing(load, server, seconds)
            fixed(load, server, seconds)
    finally:
        server.stop()
