"""Study files as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simfrontier.io import Schema, definitions_of, resolved
from simfrontier.json_schema.parts import document, offered, told
from simfrontier.scenario import scenario_keys
from simfrontier.sweep import AXIS_KEYS, StudyFile

FILE: Final = "file"
SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    FILE: {
        "name": "What the study is called; its folder of results is called after it.",
        "title": "What is shown of it, on one line.",
        "scenarios": "Scenario files, from the folder of the study; each is run with every combination of the axes.",
        "plans": "Plans that are simulated, as --plans takes them; all of the scenarios without it.",
        "set": "Settings of all points: key of a scenario = value. Tables mean dotted keys.",
        "fidelity": "How all points are simulated, instead of as the scenarios say.",
        "replay": "Whether points that differ in numbers of the machine alone are answered from one simulated step.",
        "axes": "What is varied. Every combination of the axes' values is a point; the last axis moves first.",
        "sampling": "How axes without values of their own are sampled together.",
        "goal": "The number of each point that the study is made for.",
        "search": "A search over all axes for the best of the goal.",
        "filters": "Conditions that a point has to meet, such as training.micro_batch * training.grad_accum <= 8.",
    },
    "AxisTable": {
        "key": "The key of the scenarios that is varied, as --set takes it.",
        "keys": "Several keys, which move together through `rows`.",
        "values": "The values, in this order.",
        "range": "Numbers at equal distances.",
        "log_range": "Numbers at equal ratios.",
        "samples": "Random numbers of a distribution.",
        "between": "The two ends of a number that the table `sampling` samples.",
        "among": "Values that are equally likely, of an axis that is sampled with others or searched over.",
        "scale": "Of `between`: whether the number or its logarithm is equally likely.",
        "rows": "Of several keys: a list with a value for each key, for every place of the axis.",
    },
    "RangeTable": {
        "from": "The first number.",
        "to": "The last number, or what none is above.",
        "step": "The distance between two.",
        "count": "How many, both ends included.",
    },
    "LogRangeTable": {"from": "The first number.", "to": "The last number.", "count": "How many, both ends included."},
    "SamplesTable": {
        "distribution": "Which distribution; it says which of the other keys are needed.",
        "low": "The lowest number.",
        "high": "The highest number.",
        "mean": "The mean of a normal distribution.",
        "sd": "The standard deviation, of a log-normal distribution that of the natural logarithm.",
        "median": "The median of a log-normal distribution.",
        "mode": "The likeliest number of a triangular distribution.",
        "count": "How many values; without it the table `sampling` says so.",
        "seed": "Of the values; 1 without it.",
    },
    "SamplingTable": {
        "method": "A Latin hypercube, independent random numbers, Sobol' numbers, or points for Sobol' indices.",
        "count": "How many samples.",
        "seed": "Of the samples.",
    },
    "GoalTable": {
        "column": "A column of numbers of results.csv.",
        "plan": "The plan whose number it is; the best of all without it.",
        "against": "Another plan, to whose number the ratio is taken.",
        "devices": "The size; the best of all without it.",
        "best": "Whether much of it is wanted, or little.",
    },
    "SearchTable": {
        "points": "How many points are simulated.",
        "estimates": "How many points are estimated before the first is simulated.",
        "seed": "Of the search.",
    },
}


def study_file() -> Schema:
    """The schema of studies' files. Keys of scenarios are offered, and not checked: numbers of machines and libraries
    are keys, too, and so is `plans.*.key`."""
    found, definitions = definitions_of({FILE: StudyFile})
    root = resolved(found[FILE], definitions)
    keys = {"enum": [key.name for key in scenario_keys() if not key.families]}
    for name, sentences in SENTENCES.items():
        table = root if name == FILE else definitions[name]
        for key, sentence in sentences.items():
            table["properties"][key] = told(table["properties"][key], sentence)
    axis = definitions["AxisTable"]
    axis["properties"]["key"] |= offered(keys)
    axis["oneOf"] = [
        *({"required": ["key", way], "not": {"required": ["keys"]}} for way in AXIS_KEYS),
        {"required": ["keys", "rows"], "not": {"required": ["key"]}},
    ]
    return document("study", "a study of simfrontier", root, definitions)
