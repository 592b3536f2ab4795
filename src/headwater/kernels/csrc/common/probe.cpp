#include "common/probe.h"

#include "common/module.h"

using Array = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstArray = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

HW_MODULE(probe) {
  m.def("_probe16", [](int op, ConstArray x, ConstArray y, Array out) {
    if (x.size() != out.size() || y.size() != out.size()) throw nb::value_error("x, y and out must have one size");
    if (!HW_SELECT(probe16)(op, x.data(), y.data(), out.data(), static_cast<int64_t>(out.size()))) throw nb::value_error("no such primitive");
  }, nb::arg("op"), nb::arg("x"), nb::arg("y"), nb::arg("out"),
  "Test hook: one sixteen-lane primitive over arrays (0 exp, 1 tanh, 2 silu, 3 gelu, 4 max, 5 min, 6 to_int, 7 f16, 8 select, 9 folds, 10 int8).");
}
