// Bindings of recorded programs: everything that comes from Python is checked here, once when a program is built and once per step.
#include "common/module.h"

#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "attend/attend.h"
#include "attend/pattern_bind.h"
#include "attend/select_bind.h"
#include "program/program.h"

namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Cache = nb::ndarray<nb::c_contig, nb::device::cpu>;
using States = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using GroupTuple = std::tuple<Cache, Cache, int, int, Table>;  // k, v, format, head_dim, table

const char* const kNames[] = {"embed", "position_embed", "rms_norm", "layer_norm", "linear", "rope", "attend", "silu_mul", "gelu_mul", "gelu", "reads",
                              "add", "scale", "short_conv", "gated_delta", "gated_rms_norm", "sigmoid_mul"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(hw::OpKind::count), "one name per operation");

void want(bool ok, const std::string& what) {
  if (!ok) throw nb::value_error(what.c_str());
}

template <class T>
T get(const nb::dict& attrs, const char* key, T otherwise) {
  return attrs.contains(key) ? nb::cast<T>(attrs[key]) : otherwise;
}

hw::AttendSpec attend_spec(const nb::dict& a) {
  hw::AttendSpec s;
  s.group = get(a, "group", 0);
  s.layer = get(a, "layer", 0);
  s.heads = get(a, "heads", 0);
  s.kv_heads = get(a, "kv_heads", 0);
  s.head_dim = get(a, "head_dim", 0);
  s.window = get(a, "window", 0);
  s.scale = get(a, "scale", 1.0f);
  s.softcap = get(a, "softcap", 0.0f);
  s.causal = get(a, "causal", true);
  return s;
}

void add_op(hw::Program& program, const std::string& kind, const std::vector<std::tuple<int, int64_t, int64_t>>& inputs, int out, nb::object weight,
            const std::vector<hw::FloatArray>& arrays, const nb::dict& attrs) {
  hw::Op op;
  const auto* end = kNames + static_cast<size_t>(hw::OpKind::count);
  const auto* found = std::find(kNames, end, kind);
  want(found != end, "the native executor has no operation '" + kind + "'");
  op.kind = static_cast<hw::OpKind>(found - kNames);
  const auto buffers = static_cast<int>(program.buffers.size());
  want(out >= 0 && out < buffers && inputs.size() <= 5, kind + ": bad output buffer or too many inputs");
  for (const auto& [buffer, start, dim] : inputs) {
    want(buffer >= 0 && buffer < buffers && start >= 0 && dim > 0 && start + dim <= program.buffers[static_cast<size_t>(buffer)].dim,
         kind + ": an input lies outside its buffer");
    op.inputs.push_back({buffer, start, dim});
  }
  op.out = out;
  if (!weight.is_none()) {
    op.weight = &nb::cast<const hw::Weight&>(weight);
    program.keep.push_back(weight);
    if (op.kind == hw::OpKind::linear) {
      want(!inputs.empty() && op.weight->cols == std::get<2>(inputs[0]) && op.weight->rows == program.buffers[static_cast<size_t>(out)].dim,
           "linear: the weight does not fit its input and output");
      if (hw::needs_quant(op.weight->view())) program.widest_quant = std::max(program.widest_quant, op.weight->cols);
    }
  }
  op.arrays = arrays;
  op.number = get(attrs, "number", 0.0f);
  op.quantise = get(attrs, "quantise", false);
  op.fine = get(attrs, "fine", false);
  program.any_fine = program.any_fine || op.fine;
  op.head_dim = get(attrs, "head_dim", 0);
  op.interleaved = get(attrs, "interleaved", false);
  op.activation = get(attrs, "activation", false);
  op.state = get(attrs, "state", std::string());
  op.layer = get(attrs, "layer", 0);
  op.key_heads = get(attrs, "key_heads", 0);
  op.value_heads = get(attrs, "value_heads", 0);
  op.key_dim = get(attrs, "key_dim", 0);
  op.value_dim = get(attrs, "value_dim", 0);
  if (op.kind == hw::OpKind::attend) op.attend = attend_spec(attrs);
  if (op.quantise) program.widest_quant = std::max(program.widest_quant, program.buffers[static_cast<size_t>(out)].dim);
  program.ops.push_back(std::move(op));
}

void check_range(const Ints& a, int64_t low, int64_t high, const char* name) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a.data()[i] < low || a.data()[i] >= high)
      throw nb::value_error((std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(a.data()[i]) + ", outside [" + std::to_string(low) +
                             ", " + std::to_string(high) + ")").c_str());
  }
}

hw::KVGroup group_of(const GroupTuple& g, int n_rows) {
  const auto& [k, v, format, head_dim, table] = g;
  if (head_dim == 0) return {};  // a group that no operation reads
  want(k.ndim() >= 4 && v.ndim() >= 4 && head_dim > 0, "kv: k and v must be [layers, blocks, kv_heads, ...]");
  hw::KVGroup group;
  want(hw::set_format(group, format), "kv: unknown format");
  group.k = static_cast<uint16_t*>(k.data());
  group.v = static_cast<uint16_t*>(v.data());
  group.layers = static_cast<int>(k.shape(0));
  group.n_blocks = static_cast<int64_t>(k.shape(1));
  group.kv_heads = static_cast<int>(k.shape(2));
  group.head_dim = head_dim;
  group.table = table.data();
  group.table_width = static_cast<int>(table.shape(1));
  const int64_t blocks = group.layers * group.n_blocks * group.kv_heads;
  const int64_t key_bytes = blocks * hw::block_bytes(hw::key_format(group.format), head_dim);
  const int64_t value_bytes = blocks * hw::block_bytes(hw::value_format(group.format), head_dim);
  want(static_cast<int64_t>(k.nbytes()) == key_bytes && static_cast<int64_t>(v.nbytes()) == value_bytes, "kv: k and v do not have the size of the format");
  want(static_cast<int>(table.shape(0)) >= n_rows, "kv: the table has fewer rows than the step");
  for (size_t i = 0; i < table.size(); ++i) want(table.data()[i] < group.n_blocks, "kv: the table names a block beyond the cache");
  return group;
}

// What the operations demand of the step's arrays: token ids below the vocabulary, states and groups that exist.
void check_ops(const hw::Program& program, const hw::Run& run, const Ints& tokens, const Ints& positions) {
  for (const hw::Op& op : program.ops) {
    if (op.kind == hw::OpKind::embed) check_range(tokens, 0, op.weight->rows, "tokens");
    if (op.kind == hw::OpKind::position_embed) {
      const int64_t dim = program.buffers[static_cast<size_t>(op.out)].dim;
      check_range(positions, 0, static_cast<int64_t>(op.arrays.at(0).size()) / dim, "positions");
    }
    if (op.kind == hw::OpKind::attend) {
      want(op.attend.group >= 0 && op.attend.group < static_cast<int>(run.groups.size()), "kv: a cache group is missing");
      const hw::KVGroup& g = run.groups[static_cast<size_t>(op.attend.group)];
      want(op.attend.layer < g.layers && op.attend.kv_heads == g.kv_heads && op.attend.head_dim == g.head_dim, "kv: a group does not fit the model");
    }
  }
}

// Recurrent states have the shapes that the operations want.
void check_states(const hw::Program& program, const hw::Run& run) {
  for (const hw::Op& op : program.ops) {
    if (op.kind == hw::OpKind::short_conv || op.kind == hw::OpKind::gated_delta) {
      const auto it = run.states.find(op.state);
      want(it != run.states.end() && op.layer < it->second.layers, "states: '" + op.state + "' is missing or has too few layers");
      const int64_t dim = program.buffers[static_cast<size_t>(op.out)].dim;
      const int64_t per_slot = op.kind == hw::OpKind::short_conv ? static_cast<int64_t>(op.arrays.at(0).size()) - dim
                                                                 : int64_t{op.value_heads} * op.value_dim * op.key_dim;
      want(it->second.per_slot == per_slot, "states: '" + op.state + "' has another shape than the model wants");
    }
  }
}

std::map<std::string, hw::StateView> state_views(const nb::dict& states, int64_t& slots) {
  std::map<std::string, hw::StateView> views;
  slots = -1;
  for (auto [name, value] : states) {
    const auto array = nb::cast<States>(value);
    want(array.ndim() >= 2, "states: [layers, slots, ...]");
    hw::StateView view{array.data(), static_cast<int64_t>(array.shape(0)), static_cast<int64_t>(array.shape(1)), 0};
    view.per_slot = view.layers * view.slots > 0 ? static_cast<int64_t>(array.size()) / (view.layers * view.slots) : 0;
    slots = slots < 0 ? view.slots : std::min(slots, view.slots);
    views[nb::cast<std::string>(name)] = view;
  }
  return views;
}

// Rows of the last run that were kept; each at most once, since they are written one after the other.
void replay_program(hw::Program& program, Ints which, Ints counts, Ints state_in, Ints state_out, const nb::dict& states) {
  const size_t n = which.size();
  want(counts.size() == n && state_in.size() == n && state_out.size() == n, "replay: which, counts, state_in and state_out differ in length");
  check_range(which, 0, program.kept_rows(), "which");
  for (size_t i = 0; i < n; ++i) {
    want(counts.data()[i] >= 0 && counts.data()[i] <= program.kept_tokens(which.data()[i]), "replay: more tokens than the row had");
  }
  int64_t slots = 0;
  hw::Run run;
  run.states = state_views(states, slots);
  check_range(state_in, -1, slots, "state_in");
  check_range(state_out, 0, slots, "state_out");
  check_states(program, run);
  const hw::Replay rows{which.data(), counts.data(), state_in.data(), state_out.data(), static_cast<int>(n)};
  nb::gil_scoped_release release;
  program.replay(hw::ThreadPool::shared(), rows, run.states);
}

// Query heads of the layers of a cache group; they must agree.
int heads_of(const hw::Program& program, int group) {
  int heads = 0;
  for (const hw::Op& op : program.ops) {
    if (op.kind != hw::OpKind::attend || op.attend.group != group) continue;
    want(heads == 0 || heads == op.attend.heads, "pattern: layers of a cache group differ in heads");
    heads = op.attend.heads;
  }
  return heads;
}

nb::ndarray<nb::numpy, float, nb::ndim<2>> run_program(hw::Program& program, Ints tokens, Ints positions, Ints row_start, Ints reads,
                                                       std::optional<Ints> state_in, std::optional<Ints> state_out,
                                                       const std::vector<GroupTuple>& groups, const nb::dict& states,
                                                       nb::object selection, std::optional<Ints> keep) {
  hw::Run run;
  hw::Step& s = run.step;
  want(tokens.size() == positions.size() && row_start.size() >= 1, "step: tokens and positions differ in length, or row_start is empty");
  s.tokens = tokens.data();
  s.positions = positions.data();
  s.row_start = row_start.data();
  s.reads = reads.data();
  s.n_tokens = static_cast<int>(tokens.size());
  s.n_rows = static_cast<int>(row_start.size()) - 1;
  s.n_reads = static_cast<int>(reads.size());
  want(s.row_start[0] == 0 && s.row_start[s.n_rows] == s.n_tokens, "step: row_start must run from 0 to the number of tokens");
  for (int r = 0; r < s.n_rows; ++r) want(s.row_start[r] <= s.row_start[r + 1], "step: row_start must not decrease");
  check_range(reads, 0, s.n_tokens, "reads");
  check_range(positions, 0, int64_t{1} << 31, "positions");
  for (const GroupTuple& g : groups) run.groups.push_back(group_of(g, s.n_rows));
  int64_t slots = -1;
  run.states = state_views(states, slots);
  if (slots >= 0) {
    want(state_in && state_out && static_cast<int>(state_in->size()) == s.n_rows && static_cast<int>(state_out->size()) == s.n_rows,
         "step: a model with recurrent state needs state_in and state_out per row");
    check_range(*state_in, -1, slots, "state_in");
    check_range(*state_out, -1, slots, "state_out");
    s.state_in = state_in->data();
    s.state_out = state_out->data();
  }
  if (keep) {
    check_range(*keep, 0, s.n_rows, "keep");
    run.keep = keep->data();
    run.n_keep = static_cast<int>(keep->size());
  }
  check_ops(program, run, tokens, positions);
  check_states(program, run);
  hw::BoundSelection bound;
  hw::BoundPattern pattern;
  if (!selection.is_none()) {
    run.selected = hw::field<int>(selection, "group");
    want(run.selected >= 0 && run.selected < static_cast<int>(run.groups.size()), "selection: its cache group is missing");
    const hw::KVGroup& group = run.groups[static_cast<size_t>(run.selected)];
    if (hw::is_pattern(selection)) {
      pattern = hw::bind_pattern(selection, s.n_rows, heads_of(program, run.selected), group);
      run.pattern = &pattern.view;
    } else {
      bound = hw::bind_selection(selection, s.n_rows, group);
      run.selection = &bound.view;
    }
  }
  const auto n = static_cast<size_t>(s.n_reads), dim = static_cast<size_t>(program.hidden_dim());
  auto* memory = new float[n * dim + 1];
  nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<float*>(p); });
  {
    nb::gil_scoped_release release;
    program.run(hw::ThreadPool::shared(), run, memory);
  }
  return {memory, {n, dim}, owner};
}

}  // namespace

HW_MODULE(program) {
  nb::class_<hw::Program>(m, "Program", "A recorded model; built by headwater.kernels.lower, replayed in one call per step.")
      .def(nb::init<>())
      .def("buffer", [](hw::Program& p, int64_t dim, int64_t offset, bool per_read) {
        want(dim > 0 && offset >= 0, "buffer: bad width or offset");
        p.buffers.push_back({dim, offset, per_read});
        int64_t& total = per_read ? p.read_floats : p.token_floats;
        total = std::max(total, offset + dim);
      }, nb::arg("dim"), nb::arg("offset"), nb::arg("per_read"))
      .def("op", &add_op, nb::arg("kind"), nb::arg("inputs"), nb::arg("out"), nb::arg("weight").none(), nb::arg("arrays"), nb::arg("attrs"))
      .def("finish", [](hw::Program& p, int hidden) {
        want(hidden >= 0 && hidden < static_cast<int>(p.buffers.size()) && p.buffers[static_cast<size_t>(hidden)].per_read,
             "the program must end in read rows");
        p.hidden = hidden;
        p.finish();
      }, nb::arg("hidden"))
      .def("run", &run_program, nb::arg("tokens"), nb::arg("positions"), nb::arg("row_start"), nb::arg("reads"), nb::arg("state_in").none(),
           nb::arg("state_out").none(), nb::arg("groups"), nb::arg("states"), nb::arg("selection").none() = nb::none(),
           nb::arg("keep").none() = nb::none())
      .def("replay", &replay_program, nb::arg("which"), nb::arg("counts"), nb::arg("state_in"), nb::arg("state_out"), nb::arg("states"),
           "Recurrent layers take the first `counts` tokens of rows that the last run kept, from `state_in` into `state_out`.")
      .def_rw("timed", &hw::Program::timed, "Whether run() adds the wall time of every operation to `take_seconds`.")
      .def("take_seconds", [](hw::Program& p) {  // seconds by kind of operation since the last call
        nb::dict out;
        for (size_t kind = 0; kind < static_cast<size_t>(hw::OpKind::count); ++kind) {
          if (p.seconds[kind] > 0.0) out[kNames[kind]] = p.seconds[kind];
          p.seconds[kind] = 0.0;
        }
        return out;
      })
      .def_prop_ro("scratch_bytes", &hw::Program::scratch_bytes);
}
