"""A GGUF as a float32 hub folder, for peers that want one: weights dequantised by transformers. Runs in a peer's environment."""

import sys
from pathlib import Path

import torch
import transformers

gguf, folder = Path(sys.argv[1]), sys.argv[2]
read = transformers.AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
config = type(read.config)(**{k: v for k, v in read.config.to_dict().items() if k != "quantization_config"})
fresh = transformers.AutoModelForCausalLM.from_config(config)         # a model read from GGUF cannot be saved itself
fresh.load_state_dict(read.state_dict())
fresh.save_pretrained(folder)
transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(folder)
