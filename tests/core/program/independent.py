"""A second reader of schedule files, written from docs/schedule.md alone: it imports nothing of simfrontier."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

BYTES = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "int64": 8,
    "uint8": 1,
    "token": 0,
    "moments": 8,
    "moments64": 16,
    "moments_bf16": 4,
}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
Instance = tuple[str, int, int]


def coded(codec: str, n: int) -> tuple[int, int]:
    """(payload, scales) in bytes of a piece of n elements."""
    name, *rest = codec.split(":")
    if name in ("int8", "int4"):
        return -(-n * int(name[3:]) // 8), 4 * -(-n // int(rest[0]))
    if name == "zfp":
        bits = -(-n // 4) * math.floor(4 * Fraction(rest[0]) + Fraction(1, 2))
        return 8 * -(-bits // 64), 0
    if name == "mpc":
        kind, ratio = rest or ("fp32", "1.1")
        return math.ceil(n * BYTES[kind] / Fraction(ratio)), 0
    return n * BYTES[name], 0


def name_of(op: dict[str, Any]) -> str:
    """The name of an op; of work of the model, what timelines and messages name it."""
    if "name" in op:
        return str(op["name"])
    part = f".{op['part']}" if "part" in op else ""
    sums = ".sums" if op["kind"] in ("norm_sums", "rmsnorm_sums", "loss_sums") else ""
    return "/".join([*op.get("streams", []), f"{op['module']}{part}{sums}"])


class File:
    """One schedule: sizes, bytes of calls, programs with their waits, and whether they run to their end."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="ascii")
        assert text.endswith("\n")
        self.form: dict[str, Any] = json.loads(text, parse_float=lambda number: 1 // 0)
        assert (self.form["format"], self.form["version"]) == ("simfrontier.schedule", 2)
        self.is_canonical = text[:-1] == json.dumps(self.form, sort_keys=True, separators=(",", ":"))
        self.digest = hashlib.sha256(text[:-1].encode("ascii")).hexdigest()
        self.axes: dict[str, int] = dict(self.form["mesh"])
        self.tensors: dict[str, dict[str, Any]] = self.form["tensors"]
        self.cut = {  # by tensor the number of its parts
            name: self.parts(op, name)
            for op in self.form["ops"]
            for key in ("reads", "writes", "src", "dst")
            for name, _, _ in refs(op.get(key))
            if self.parts(op, name) > 1
        }
        self.programs = [Program(self, role) for role in self.form["roles"]]

    def size(self, axes: list[str]) -> int:
        return math.prod(self.axes[axis] for axis in axes)

    def groups(self, axes: list[str]) -> list[list[int]]:
        """Ranks of every group over these axes, by their other coordinates; members in the order of the axes."""
        out: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = defaultdict(list)
        for rank, place in enumerate(product(*(range(size) for size in self.axes.values()))):
            at = dict(zip(self.axes, place, strict=True))
            others = tuple(at[axis] for axis in self.axes if axis not in axes)
            out[others].append((tuple(at[axis] for axis in axes), rank))
        return [[rank for _, rank in sorted(members)] for _, members in sorted(out.items())]

    def local_elements(self, name: str) -> int:
        tensor = self.tensors[name]
        block, flat = math.prod(tensor["shape"]), []
        for part in tensor["placement"].split():
            axis, _, how = part.partition(":")
            if how.startswith("shard("):
                assert block % self.axes[axis] == 0
                block //= self.axes[axis]
            elif how == "flat":
                flat.append(axis)
        padded = block + -block % self.size(tensor.get("nesting", []))
        return padded // self.size(flat) * self.size(tensor.get("stacked", []))

    def local_bytes(self, name: str) -> int:
        n, tensor = self.local_elements(name), self.tensors[name]
        return sum(coded(tensor["codec"], n)) if "codec" in tensor else n * BYTES[tensor["dtype"]]

    def message_bytes(self, op: dict[str, Any]) -> tuple[int, int]:
        """Of a collective (data, scales), of an exchange (there, back)."""
        if op["kind"] == "exchange":
            there, back = (
                sum(sum(coded(op["codec"], self.local_elements(name))) for name, _, _ in refs(op.get(key)))
                for key in ("src", "back_src")
            )
            return there, back
        pieces = 1 if op["kind"] == "all_reduce" and not op.get("per_hop") else self.size(op["axes"])
        data = scales = 0
        for name, _, _ in refs(op["dst" if op["kind"] == "all_gather" else "src"]):
            parts = self.parts(op, name)
            payload, scale = coded(op["codec"], -(-self.local_elements(name) // (pieces * parts)))
            data, scales = data + pieces * payload, scales + pieces * scale
        return data, scales

    def parts(self, op: dict[str, Any], name: str) -> int:
        """In how many parts an op has a tensor."""
        _, parts, label, _ = op.get("piece", (0, 1, "", []))
        return parts if label in self.tensors[name].get("dims", []) else 1

    def run(self) -> list[int]:
        """The issuing rule on one rank of each role, without a clock: ops done when nothing more can start."""
        done = [[0] * len(program.lanes) for program in self.programs]
        arrived: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        moved = True
        while moved:
            moved = False
            for number, program in enumerate(self.programs):
                for lane, queue in enumerate(program.queues):
                    while done[number][lane] < len(queue):
                        op = queue[done[number][lane]]
                        if any(done[number][other] < count for other, count in program.waits[op].items()):
                            break
                        key, members = program.meets[op]
                        if members > 1:
                            there = arrived[key]
                            if number not in there:
                                there.append(number)
                            if len(there) < members:
                                break
                        done[number][lane] += 1
                        moved = True
        return [sum(counts) for counts in done]


class Program:
    """One role's ops in program order with absolute operands, their lanes and what they wait for."""

    def __init__(self, file: File, role: dict[str, Any]) -> None:
        self.file, self.at = file, role.get("at")
        self.ops: list[dict[str, Any]] = []
        self.operands: list[tuple[list[Instance], list[Instance]]] = []  # read; written or accumulated
        self.place = (0, 0)
        self._calls(role["calls"], 0, 0)
        self.lanes = list(dict.fromkeys(op["lane"] for op in self.ops))
        self.queues: list[list[int]] = [[] for _ in self.lanes]
        self.done: list[tuple[int, int]] = []  # (lane, ops of it that are done when this one is)
        for index, op in enumerate(self.ops):
            lane = self.lanes.index(op["lane"])
            self.queues[lane].append(index)
            self.done.append((lane, len(self.queues[lane])))
        self.meets = self._meets()
        self.waits = self._waits()

    def _calls(self, items: list[Any], layers: int, micros: int) -> None:
        for item in items:
            if isinstance(item, dict):
                for time in range(item["times"]):
                    self._calls(item["calls"], layers + time * item["layers"], micros + time * item["micros"])
                continue
            self.place = (layers + item[2], micros + item[3])
            for number in self.file.form["blocks"][item[1]]:
                op = self.file.form["ops"][number]
                self.ops.append(op)
                self.operands.append(self._operands(op))

    def _operands(self, op: dict[str, Any]) -> tuple[list[Instance], list[Instance]]:
        reads, writes = ["reads"], ["writes", "accumulates"]
        if op["kind"] in COLLECTIVES:
            reads, writes = ["src"], ["dst"]
        elif op["kind"] == "exchange":
            assert self.at[0] == op["axis"] and self.at[1] in op["ends"]
            is_first = self.at[1] == op["ends"][0]
            reads, writes = (["src"], ["back_dst"]) if is_first else (["back_src"], ["dst"])
        token = refs([op["token"]]) if "token" in op else []
        read, written = ([self._instance(ref) for key in keys for ref in refs(op.get(key))] for keys in (reads, writes))
        return read, written + [self._instance(ref) for ref in token]

    def _instance(self, ref: Instance) -> Instance:
        name, layer, micro = ref
        tensor = self.file.tensors[name]
        is_of_layer, is_of_micro = tensor.get("per_layer", False), tensor.get("per_micro", False)
        return name, (layer + self.place[0]) * is_of_layer, (micro + self.place[1]) * is_of_micro

    def _meets(self) -> list[tuple[tuple[Any, ...], int]]:
        """Of each op the call that it is one of, and how many roles take part."""
        count: dict[tuple[Any, ...], int] = defaultdict(int)
        out: list[tuple[tuple[Any, ...], int]] = []
        for op in self.ops:
            members, sequence = 1, sequence_of(op)
            if op["kind"] == "exchange":
                members = 2
            elif op["kind"] in COLLECTIVES and self.at and self.at[0] in op["axes"]:
                members = len(self.file.form["roles"])
            if members > 1:
                count[sequence] += 1
            out.append(((*sequence, count[sequence]), members))
        return out

    def _waits(self) -> list[dict[int, int]]:
        wrote: dict[Instance, int] = {}
        readers: dict[Instance, list[int]] = defaultdict(list)
        last_call: dict[tuple[Any, ...], int] = {}
        held: dict[int, int] = {}
        pools, pooled = dict(self.file.form["pools"]), self.file.tensors
        used: dict[str, int] = defaultdict(int)
        gone: dict[str, list[Instance]] = defaultdict(list)
        last_reader = {
            x: i for i, (read, _) in enumerate(self.operands) for x in read if "pool" in pooled[x[0]]
        }  # a key keeps the place of its first reader
        done_with: dict[int, list[Instance]] = defaultdict(list)
        for x, index in last_reader.items():
            done_with[index].append(x)
        out = []
        for index, (op, both) in enumerate(zip(self.ops, self.operands, strict=True)):
            read, written = (self._parts(op, instances) for instances in both)
            before = [wrote[x] for x in (*read, *written) if x in wrote]
            before += [reader for x in written for reader in readers[x]]
            before += held.values()
            if sequence := sequence_of(op):
                before += [last_call[sequence]] if sequence in last_call else []
                last_call[sequence] = index
            for name, _, _ in (x for x in written if "pool" in pooled[x[0]]):
                pool = pooled[name]["pool"]
                used[pool] += math.prod(pooled[name]["shape"])
                while used[pool] > pools[pool] and gone[pool]:
                    old = gone[pool].pop(0)
                    used[pool] -= math.prod(pooled[old[0]]["shape"])
                    before.append(last_reader[old])
            for x in done_with[index]:
                gone[pooled[x[0]]["pool"]].append(x)
            for x in read:
                readers[x].append(index)
            for x in written:
                wrote[x], readers[x] = index, []
            need: dict[int, int] = {}
            for lane, count in (self.done[other] for other in before):
                if lane != self.done[index][0]:
                    need[lane] = max(count, need.get(lane, 0))
            out.append(need)
            if op["lane"] == "host" or op.get("blocking"):
                held[self.done[index][0]] = index
        return out

    def _parts(self, op: dict[str, Any], instances: list[Instance]) -> list[Any]:
        """Instances as they are or, where their ops have pieces, the parts of them that an op touches."""
        out: list[Any] = []
        for x in instances:
            total, number = self.file.cut.get(x[0], 1), op.get("piece", [None])[0]
            is_cut = total > 1 and self.file.parts(op, x[0]) > 1
            out += [x] if total == 1 else [(*x, part) for part in range(total) if not is_cut or part == number]
        return out

    def items(self) -> list[list[tuple[int, int]]]:
        """Waits as sorted (lane, count)."""
        return [sorted(need.items()) for need in self.waits]


class Routes:
    """What `show --routes --save` writes: the links between two devices, node by node."""

    def __init__(self, path: Path) -> None:
        self.form: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
        assert (self.form["format"], self.form["version"]) == ("simfrontier.routes", 1)

    def route(self, source: int, target: int) -> list[str]:
        """Names of links as links-PLAN.json has them, in order, from one device of the job to another."""
        form, devices = self.form, self.form["devices_per_node"]
        (a, here), (b, there) = divmod(source, devices), divmod(target, devices)
        if a == b:
            return [f"node {a} {link}" for link in form["within_node"][here][there]]
        middle: list[str] = []
        if between := form["between"]:
            listed = between["group_of_node"] or [n // between["nodes_per_group"] for n in range(form["num_nodes"])]
            groups = {"a": listed[a], "b": listed[b]}
            middle = [name.format(**groups) for name in between["route"]] if groups["a"] != groups["b"] else []
        out, back = form["to_network"][here], form["from_network"][there]
        return [*(f"node {a} {link}" for link in out), *middle, *(f"node {b} {link}" for link in back)]


def link_bytes(file: File, lowered: dict[str, Any], routes: Routes) -> dict[str, float]:
    """Bytes that rings and direct messages of a step put on every link, rank r on device r; other algorithms are left
    out."""
    (program,) = file.programs
    distinct = {json.dumps(op): op for op in program.ops if op["kind"] in COLLECTIVES}
    times = Counter(json.dumps(op) for op in program.ops)
    out: dict[str, float] = defaultdict(float)
    for (text, op), recipes in zip(distinct.items(), lowered["collectives"], strict=True):
        size = sum(file.message_bytes(op)) * times[text]
        for members, number in zip(file.groups(op["axes"]), recipes, strict=True):
            recipe, n = lowered["recipes"][number], len(members)
            pairs: list[tuple[int, int]] = []
            part = 0.0
            if recipe["algorithm"] == "ring":
                assert op["kind"] != "all_reduce"
                part = size * (n - 1) / n / len(recipe["orders"])
                pairs = [pair for order in recipe["orders"] for pair in zip(order, [*order[1:], order[0]], strict=True)]
            elif recipe["algorithm"] == "direct":
                part, pairs = size / n, list(permutations(range(n), 2))
            for a, b in pairs:
                for link in routes.route(members[a], members[b]):
                    out[link] += part
    return out


def sequence_of(op: dict[str, Any]) -> tuple[Any, ...]:
    """Calls of one sequence follow one another; () of compute."""
    if op["kind"] == "exchange":
        return op["comm"], *sorted(op["ends"])
    return (op["comm"],) if op["kind"] in COLLECTIVES else ()


def refs(listed: list[Any] | None) -> list[Instance]:
    """(name, layer, micro-batch) relative to the call, runs over layers written out."""
    out: list[Instance] = []
    for item in listed or []:
        if isinstance(item, str):
            out.append((item, 0, 0))
        elif isinstance(item[0], str):
            out.append((item[0], item[1], item[2]))
        else:
            times, group, step = item
            out += [(name, layer + i * step, micro) for i in range(times) for name, layer, micro in refs(group)]
    return out
