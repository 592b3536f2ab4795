#include "common/module.h"

#include <nanobind/stl/string.h>

#include <string>

#include "common/isa.h"
#include "common/pool.h"

namespace {

const char* isa_name(hw::Isa isa) {
  static const char* const kNames[] = {"portable", "avx2", "avx512", "amx"};
  return kNames[static_cast<int>(isa)];
}

void set_isa(const std::string& name) {
  for (hw::Isa isa : {hw::Isa::portable, hw::Isa::avx2, hw::Isa::avx512, hw::Isa::amx}) {
    if (name != isa_name(isa)) continue;
    if (!hw::set_active_isa(isa)) throw nb::value_error(("this processor cannot run " + name).c_str());
    return;
  }
  throw nb::value_error(("unknown instruction set '" + name + "'; known: amx, avx512, avx2, portable").c_str());
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Native kernels; use them through headwater.kernels.native.";
  m.def("isa", [] { return std::string(isa_name(hw::active_isa())); }, "Instruction set in use.");
  m.def("detected_isa", [] { return std::string(isa_name(hw::detected_isa())); }, "Best instruction set of this processor.");
  m.def("set_isa", &set_isa, nb::arg("name"), "Choose amx, avx512, avx2 or portable; ValueError when the processor lacks it.");
  m.def("threads", [] { return hw::ThreadPool::shared().threads(); }, "Threads of the shared pool.");
  m.def("set_threads", [](int n) { nb::gil_scoped_release release; hw::ThreadPool::shared().resize(n); }, nb::arg("n"));
  for (auto* part = hw::ModulePart::first(); part; part = part->next) part->add(m);
}
