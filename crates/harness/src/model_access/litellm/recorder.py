"""Writes a line of JSON for each call that LiteLLM has answered. Proctor compares it with its own log; it contains no keys."""

import json
import os

from litellm.integrations.custom_logger import CustomLogger


class Recorder(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        write(kwargs, start_time, end_time)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        write(kwargs, start_time, end_time)


def write(kwargs, start_time, end_time):
    entry = kwargs.get("standard_logging_object") or {}
    line = {
        "at": start_time.isoformat(),
        "ms": round((end_time - start_time).total_seconds() * 1000),
        "status": entry.get("status"),
        "model": entry.get("model"),
        "prompt_tokens": entry.get("prompt_tokens"),
        "completion_tokens": entry.get("completion_tokens"),
        "cost_usd": entry.get("response_cost"),
    }
    with open(os.environ["PROCTOR_LITELLM_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


recorder = Recorder()
