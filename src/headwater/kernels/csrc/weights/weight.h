// A weight as Python hands it over: parts stacked along output rows. It keeps the arrays alive.
#pragma once

#include <nanobind/ndarray.h>

#include <vector>

#include "weights/layout.h"

namespace hw {

struct Weight {
  std::vector<PartView> parts;
  std::vector<nanobind::ndarray<const uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>> arrays;
  int64_t rows = 0, cols = 0;

  WeightView view() const { return {parts.data(), static_cast<int>(parts.size()), rows, cols}; }
};

}  // namespace hw
