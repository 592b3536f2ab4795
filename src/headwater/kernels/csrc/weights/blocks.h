// Block formats of GGUF files taken apart, one block at a time: codes by column, scales as the packed layouts keep them.
// The numpy definition is kernels/ggml.py.
#pragma once

#include <cstdint>

namespace hw {

struct BlockCodes {
  uint8_t q[256];
  uint16_t d = 0, minimum = 0;  // float16 bits
  int8_t sub[16];               // sub-scales (signed or unsigned bytes)
  uint8_t submin[16];
};

using DecodeBlock = void (*)(const uint8_t* block, BlockCodes& out);

struct BlockFormat {
  const char* name;
  int columns, bytes;   // of one block
  int layout;           // which packed layout keeps it without loss
  DecodeBlock decode;   // null for float formats
  int codes_at = 0;     // where codes stand that need no taking apart (32 nibbles or 32 bytes behind float16 numbers); 0 = nowhere
};

const BlockFormat* find_block_format(const char* name);  // null when unknown

}  // namespace hw
