"""A GGUF in another encoding: python export_gguf.py FROM TO F16|Q8_0|Q4_0. Needs the gguf package; runs in a peer's environment.

Matrices are dequantised and encoded anew by that package; vectors and metadata are copied. Tables too narrow for blocks stay as they are.
"""

import os
import sys

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

FILE_TYPES = {"F16": gguf.LlamaFileType.MOSTLY_F16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}
WRITER_SETS = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type"}
TABLES = ("token_embd.weight", "output.weight")


def target(tensor, wanted):
    """Encoding of one tensor: what llama.cpp's own tool does for these files, tables of a 4-bit file at 8 bits included."""
    if len(tensor.shape) < 2:
        return gguf.GGMLQuantizationType.F32
    return gguf.GGMLQuantizationType["Q8_0" if wanted == "Q4_0" and tensor.name in TABLES else wanted]


def main(source, out, wanted):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out + ".part", reader.fields["general.architecture"].contents())
    writer.add_file_type(FILE_TYPES[wanted])
    for name, field in reader.fields.items():
        if name not in WRITER_SETS:
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        kind = target(tensor, wanted)
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
