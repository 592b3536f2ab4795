#include "common/module.h"

#include <algorithm>

#include "history/history.h"

namespace {

using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IdsOut = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

}  // namespace

HW_MODULE(history) {
  nb::class_<hw::History>(m, "TokenHistory", "Sequences of token ids in a ring, searched for what followed the same tokens before.")
      .def("__init__",
           [](hw::History* self, int64_t capacity) {
             if (capacity < 1 || capacity > (int64_t{1} << 30)) throw nb::value_error("capacity must be 1 to 2^30 tokens");
             new (self) hw::History(capacity);
           },
           nb::arg("capacity"))
      .def("begin", &hw::History::begin, "Start a new sequence.")
      .def("extend", [](hw::History& h, const Ids& ids) { h.extend(ids.data(), static_cast<int64_t>(ids.shape(0))); }, nb::arg("ids"))
      .def("find",
           [](const hw::History& h, const Ids& tail, const IdsOut& out) {
             const auto found = h.find(tail.data(), static_cast<int>(tail.shape(0)), static_cast<int>(out.shape(0)));
             h.copy(found, out.data());
             return nb::make_tuple(found.match, found.length);
           },
           nb::arg("tail"), nb::arg("out"), "(tokens that agree, tokens written to out).")
      .def("occurrences",
           [](const hw::History& h, const Ids& tail, const Matrix& out, const IdsOut& matches) {
             if (out.shape(0) < hw::History::kLinks || matches.shape(0) < hw::History::kLinks) throw nb::value_error("out: too few rows");
             hw::History::Found found[hw::History::kLinks];
             const auto width = static_cast<int64_t>(out.shape(1));
             const int n = h.occurrences(tail.data(), static_cast<int>(tail.shape(0)), static_cast<int>(width), found);
             for (int i = 0; i < n; ++i) {
               h.copy(found[i], out.data() + i * width);
               std::fill(out.data() + i * width + found[i].length, out.data() + (i + 1) * width, -1);
               matches.data()[i] = found[i].match;
             }
             return n;
           },
           nb::arg("tail"), nb::arg("out"), nb::arg("matches"), "What followed each occurrence, newest first and padded with -1; how many there are.")
      .def_prop_ro("size", &hw::History::size)
      .def_prop_ro("bytes", &hw::History::bytes);
}
