"""python benchmarks/population.py [--model ID] [--members 16] [--tasks 8] [--threads N] [--scope NAME]
                                [--device NAME] [--dtype NAME] [--json]

Tokens per second of a whole population in one batch against one member at a time, the same work in one process: the same
prompts, members, noise and number of answer tokens. Also prints the peak memory of a training generation (population and
update) against that of inference, which includes the fp32 master.

Baseline: `population = "sequential"` of the same engine, which perturbs all weights explicitly for each member.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from coevo.engine import NoiseSpec, Perturbation, Request, Sampling, Step, load_engine
from coevo.engine.models import BUILTIN
from coevo.engine.noise import quantise_coefficients
from coevo.skill import SkillDocument

NAMES = [
    "Blue Shirt",
    "Desk Lamp",
    "Running Shoes",
    "Water Bottle",
    "Wool Blanket",
    "Garden Hose",
    "Yoga Mat",
    "Chess Set",
]
SKILL = SkillDocument.load(Path(__file__).parents[1] / "skills" / "web").body


SCOPES = {"all layers": ("*",), "upper third": ("*.layers.2?.*",)}


def requests(members: int, tasks: int, answer_tokens: int) -> list[Request]:
    """The demo's kind of prompt; stop words are left out so that every answer has its full length."""
    made = []
    for member in range(members):
        for task in range(tasks):
            shown = [NAMES[(task + k) % len(NAMES)] for k in range(4)]
            page = "\n".join(f"button '{name}' [{k + 1}]" for k, name in enumerate(shown))
            messages = (
                {"role": "system", "content": SKILL},
                {"role": "user", "content": f'{page}\nTask: Click on the "{shown[1]}" button.'},
            )
            sampling = Sampling(max_tokens=answer_tokens)
            made.append(Request(messages, sampling, Perturbation(1000 + member, 0.01)))
    return made


def peak_mb(device: str) -> float:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(
    load: Callable[..., Any], members: int, tasks: int, scopes: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    found: dict[str, Any] = {"members": members, "tasks": tasks, "load_average": round(os.getloadavg()[0], 1)}
    for scope, include in scopes.items():
        spec = NoiseSpec("lowrank", 1, "rms", include)
        together = load(noise=spec, population="batched")
        found["engine"] = together.describe()
        device = found["engine"]["device"]
        same = [replace(request, perturbation=None) for request in requests(members, tasks, 8)]
        await together.generate(same)  # inference: the centre answers as many requests; also the warm-up
        if "inference_peak_mb" not in found:
            found["inference_peak_mb"] = peak_mb(device)
        figures = {}
        for label, answer in (("short answers (8)", 8), ("long answers (64)", 64)):
            work = requests(members, tasks, answer)
            seconds, tokens = await timed(together, work)
            figures[label] = {"batched_s": seconds, "batched_tokens_s": tokens / seconds}
        z = quantise_coefficients([1.0, -1.0] * (members // 2))
        await together.update(Step(0, tuple(range(1000, 1000 + len(z))), z, len(z), 0.01, 0.01, spec))
        if "training_peak_mb" not in found:
            found["training_peak_mb"] = peak_mb(device)
            found["master_mb"] = together.weights.master_bytes / 2**20
        await together.close()
        del together
        alone = load(noise=spec, population="sequential")
        await alone.generate(same[:8])
        for label, answer in (("short answers (8)", 8), ("long answers (64)", 64)):
            seconds, tokens = await timed(alone, requests(members, tasks, answer))
            row = figures[label]
            row |= {"one_at_a_time_s": seconds, "one_at_a_time_tokens_s": tokens / seconds}
            row["ratio"] = row["one_at_a_time_s"] / row["batched_s"]
        await alone.close()
        found[scope] = figures
    return found


async def timed(engine: Any, work: list[Request]) -> tuple[float, int]:
    """Seconds, and prompt plus answer tokens served (each prompt counted whole, however it was computed)."""
    start = time.perf_counter()
    answers = await engine.generate(work)
    return time.perf_counter() - start, sum(a.prompt_tokens + a.completion_tokens for a in answers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=BUILTIN)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--scope", choices=SCOPES, help="which layers noise moves (default: each in turn)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scopes: dict[str, tuple[str, ...]] = {
        name: SCOPES[name] for name in ([options.scope] if options.scope else SCOPES)
    }
    load = partial(
        load_engine, options.model, threads=options.threads, device=options.device, dtype=options.dtype
    )
    found = asyncio.run(measure(load, options.members, options.tasks, scopes))
    if options.json:
        print(json.dumps(found, indent=2))
        return
    engine = found["engine"]
    print(
        f"{options.members} members × {options.tasks} tasks, {engine['dtype']} on {engine['device']}, "
        f"{engine['threads']} threads, "
        f"load average {found['load_average']}"
    )
    for scope in scopes:
        for label, row in found[scope].items():
            print(
                f"{scope:12} {label:18} batched {row['batched_tokens_s']:7.0f} tokens/s   one at a time "
                f"{row['one_at_a_time_tokens_s']:7.0f} tokens/s   ratio {row['ratio']:.2f}"
            )
    allowed = 1.1 * (found["inference_peak_mb"])
    print(
        f"peak memory: inference (with the fp32 master of {found['master_mb']:.0f} MB) {found['inference_peak_mb']:.0f} MB, "
        f"training {found['training_peak_mb']:.0f} MB, bound {allowed:.0f} MB"
    )


if __name__ == "__main__":
    main()
