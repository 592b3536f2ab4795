#include "common/module.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "common/pool.h"
#include "weights/memory.h"
#include "weights/pack.h"
#include "weights/weight.h"

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OwnedBytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

static OwnedBytes owned(const hw::Piece& piece, size_t bytes) {
  auto* holder = new std::shared_ptr<hw::Slab>(piece.slab);
  nb::capsule owner(holder, [](void* p) noexcept { delete static_cast<std::shared_ptr<hw::Slab>*>(p); });
  return OwnedBytes(piece.data, {bytes}, owner);
}

static OwnedBytes pack(const std::string& type, Bytes raw, int64_t rows, int64_t cols) {
  const hw::BlockFormat* format = hw::find_block_format(type.c_str());
  if (!format) throw nb::value_error(("unknown tensor type " + type).c_str());
  if (rows <= 0 || cols <= 0 || rows > (int64_t{1} << 31) || cols > (int64_t{1} << 31) || cols % format->columns)
    throw nb::value_error((type + ": bad shape").c_str());
  if (static_cast<__int128>(rows) * (cols / format->columns) * format->bytes != static_cast<__int128>(raw.size()))
    throw nb::value_error((type + ": the buffer does not have the size of the shape").c_str());
  const hw::Layout& layout = hw::kLayouts[format->layout];
  const size_t bytes = static_cast<size_t>((rows + hw::kGroupRows - 1) / hw::kGroupRows * layout.group_bytes(cols));
  hw::Piece piece = hw::allocate_weight_memory(bytes);
  {
    nb::gil_scoped_release release;
    hw::pack_weight(hw::ThreadPool::shared(), *format, raw.data(), rows, cols, piece.data);
  }
  return owned(piece, bytes);
}

HW_MODULE(weights) {
  m.def("pack", &pack, nb::arg("type"), nb::arg("raw"), nb::arg("rows"), nb::arg("cols"), "File bytes -> packed uint8 (kernels/layouts.py).");
  m.def("allocate", [](size_t bytes) { return owned(hw::allocate_weight_memory(bytes), bytes); }, nb::arg("bytes"),
        "Zeroed uint8[bytes], 64-byte aligned, from large mappings that ask for huge pages.");
  using PartTuple = std::tuple<int, int64_t, int64_t, Bytes>;
  nb::class_<hw::Weight>(m, "Weight", "Packed parts (layout id, rows, cols, data) stacked along output rows.")
      .def("__init__", [](hw::Weight* self, const std::vector<PartTuple>& parts) {
        new (self) hw::Weight();
        for (const auto& [layout, rows, cols, data] : parts) {
          if (layout < 0 || layout >= hw::kLayoutCount || rows <= 0 || cols <= 0 || rows > (int64_t{1} << 31) || cols > (int64_t{1} << 31))
            throw nb::value_error("bad layout or shape");
          hw::PartView view{layout, rows, cols, data.data(), self->rows};
          if (!hw::kLayouts[layout].is_float() && cols % hw::kBlockColumns) throw nb::value_error("columns must fill blocks of 32");
          if (static_cast<int64_t>(data.size()) != view.groups() * hw::kLayouts[layout].group_bytes(cols) ||
              reinterpret_cast<uintptr_t>(data.data()) % 64)
            throw nb::value_error("data must be 64-byte aligned and of the layout's size");
          if (!self->parts.empty() && self->cols != cols) throw nb::value_error("parts must have one width");
          self->cols = cols;
          self->rows += rows;
          self->parts.push_back(view);
          self->arrays.push_back(data);
        }
        if (self->parts.empty()) throw nb::value_error("a weight needs a part");
      }, nb::arg("parts"))
      .def_ro("rows", &hw::Weight::rows)
      .def_ro("cols", &hw::Weight::cols);
}
