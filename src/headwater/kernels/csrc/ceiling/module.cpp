#include "common/module.h"

#include <atomic>

#include "ceiling/ceiling.h"
#include "common/pool.h"

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

HW_MODULE(ceiling) {
  m.def("read_streams", [](Bytes data, int streams) {
    if (streams < 1 || streams > 64) throw nb::value_error("streams: 1 to 64");
    const auto run = HW_SELECT(read_streams);
    hw::ThreadPool& pool = hw::ThreadPool::shared();
    const int threads = pool.threads();
    const int64_t each = static_cast<int64_t>(data.size()) / threads / (64 * streams) * (64 * streams);
    std::atomic<int32_t> sum{0};
    nb::gil_scoped_release release;
    pool.parallel_for(threads, [&](int t, int) { sum.fetch_add(run(data.data() + t * each, each, streams), std::memory_order_relaxed); });
    return each * threads;
  }, nb::arg("data"), nb::arg("streams"), "Reads the array once with all threads, each in `streams` parallel streams; returns the bytes read.");
  m.def("dot_ceiling", [](int bits, int64_t blocks, bool tiles) {
    auto run = HW_SELECT(dot_ceiling);
    if (tiles && hw::active_isa() != hw::Isa::amx) throw nb::value_error("dot_ceiling: matrix tiles are not in use");
#if defined(HW_HAS_AMX)
    if (tiles) run = &hw::amx::dot_ceiling;
#endif
    hw::ThreadPool& pool = hw::ThreadPool::shared();
    std::atomic<int64_t> done{0};
    nb::gil_scoped_release release;
    pool.parallel_for(pool.threads(), [&](int, int) { done.fetch_add(run(bits, blocks), std::memory_order_relaxed); });
    return done.load();
  }, nb::arg("bits"), nb::arg("blocks"), nb::arg("tiles") = false,
        "The product tile with weights at hand (registers; L1 for matrix tiles) on all threads; returns the integer operations done.");
  m.def("fma_ceiling", [](int64_t steps) {
    const auto run = HW_SELECT(fma_ceiling);
    hw::ThreadPool& pool = hw::ThreadPool::shared();
    std::atomic<int64_t> done{0};
    nb::gil_scoped_release release;
    pool.parallel_for(pool.threads(), [&](int, int) { done.fetch_add(run(steps), std::memory_order_relaxed); });
    return done.load();
  }, nb::arg("steps"), "Float multiply-adds in registers on all threads; returns the floating-point operations done.");
}
