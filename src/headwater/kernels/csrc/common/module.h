// A binding file says HW_MODULE(name) { m.def(...); } and is part of the module; no central list to edit.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace hw {

struct ModulePart {
  void (*add)(nb::module_&);
  ModulePart* next;
  static ModulePart*& first() {
    static ModulePart* head = nullptr;
    return head;
  }
  explicit ModulePart(void (*f)(nb::module_&)) : add(f), next(first()) { first() = this; }
};

}  // namespace hw

#define HW_MODULE(name)                                     \
  static void register_##name(nb::module_&);                \
  static hw::ModulePart part_##name{&register_##name};      \
  static void register_##name([[maybe_unused]] nb::module_& m)
