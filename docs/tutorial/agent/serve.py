"""The model of the tutorial's agent behind OpenAI's chat protocol on this machine: ``python serve.py``.

``pcsuite models pull qwen2.5-coder-0.5b`` fetches its file first. It ends with Ctrl-C.
"""

import signal

import xllamacpp

from pcsuite.engines.weights import catalogue_entry, pulled_path

params = xllamacpp.CommonParams()
params.model.path = str(pulled_path(catalogue_entry("qwen2.5-coder-0.5b-instruct-q4_k_m")))
params.n_ctx = 4096
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(f"export AGENT_URL={server.listening_address}/v1/chat/completions", flush=True)
signal.sigwait({signal.SIGINT, signal.SIGTERM})
