#include "lathe/backends/ref/ref_backend.h"

#include <chrono>
#include <cstring>

#include "lathe/core/float16.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/program/bindings.h"

namespace lathe {
namespace {

template <typename T>
T load(const std::byte* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* data, size_t i, T value) {
  std::memcpy(data + i * sizeof(T), &value, sizeof(T));
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class RefExecutable : public Executable {
 public:
  RefExecutable(const Program& program, const MemoryPlan& plan, const Bindings& bindings, ProcessGroup* group)
      : program_(program),
        plan_(plan),
        bindings_(bindings),
        group_(group),
        input_bytes_(input_bytes(program)),
        content_(program.values().size()) {}

  Status run(const Slot& slot, Event* event) override {
    size_t input = 0;
    if (Status status = check_inputs(slot, input_bytes_); !status.ok()) return status;
    for (size_t id = 0; id < content_.size(); ++id) {
      const ValueInfo& value = program_.values()[id];
      const size_t count = static_cast<size_t>(elements(value.type));
      if (value.kind == ValueKind::kInput)
        content_[id] = load_doubles(value.type.dtype, slot.inputs[input++].data(), count);
      if (value.kind == ValueKind::kState)
        content_[id] = load_doubles(value.type.dtype, bindings_.states.at(value.name).data, count);
    }
    spans_.clear();
    for (size_t n = 0; n < program_.nodes().size(); ++n) {
      const int64_t begin = now_ns();
      if (Status status = run_node(program_.nodes()[n]); !status.ok()) return status;
      if (profile_) spans_.push_back({static_cast<int>(n), begin, now_ns()});
    }
    auto& ring = outputs_[++ticket_ % kRing];
    ring.clear();
    for (const auto& [name, id] : program_.outputs()) ring.push_back(content_[static_cast<size_t>(id)]);
    *event = {ticket_};
    return {};
  }

  Status wait(Event) override { return {}; }

  Status read(Event event, size_t index, std::span<std::byte> destination) override {
    const DType dtype = program_.type(program_.outputs()[index].second).dtype;
    const auto& values = outputs_[event.ticket % kRing].at(index);
    if (destination.size() != values.size() * size_of(dtype))
      return {ErrorCode::kInternal, fmt::format("output {}: expected {} bytes, found {}", index,
                                                values.size() * size_of(dtype), destination.size())};
    store_doubles(dtype, destination.data(), values);
    return {};
  }

  void profile(bool on) override { profile_ = on; }
  std::vector<Span> timeline() const override { return spans_; }

 private:
  Status run_node(const Node& node) {
    Reference r{node, {}, {}, {}, {}, {}};
    for (int id : node.in) {
      r.in_types.push_back(id < 0 ? Type{DType::f32, {-1}} : program_.type(id));
      r.in.push_back(id < 0 ? std::vector<double>{} : content_[static_cast<size_t>(id)]);
    }
    for (int id : node.out) {
      r.out_types.push_back(program_.type(id));
      r.out.emplace_back(static_cast<size_t>(elements(program_.type(id))), 0.0);
      r.magnitude.emplace_back(r.out.back().size(), 0.0);
    }
    node.op->reference(r);
    if (node.op == &op::all_reduce && group_ != nullptr)
      if (Status status = sum(r.out[0]); !status.ok()) return status;
    const bool gathers = node.op == &op::all_gather || node.op == &op::gather_ranks;
    if (gathers && group_ != nullptr)
      if (Status status = gather(r.in.back(), r.out[0]); !status.ok()) return status;
    for (size_t o = 0; o < node.out.size(); ++o)
      content_[static_cast<size_t>(node.out[o])] = std::move(r.out[o]);
    for (const InPlace& alias : node.op->in_place) {
      const int out = node.out[static_cast<size_t>(alias.out)];
      const MemoryPlan::Place& place = plan_.places[static_cast<size_t>(out)];
      if (place.state < 0) continue;
      const Buffer& buffer = bindings_.states.at(program_.values()[static_cast<size_t>(place.state)].name);
      store_doubles(program_.type(out).dtype, buffer.data + place.offset, content_[static_cast<size_t>(out)]);
    }
    return {};
  }

  Status sum(std::vector<double>& values) {
    auto all = group_->all_gather(std::as_bytes(std::span(values)));
    if (!all.ok()) return all.status();
    std::fill(values.begin(), values.end(), 0.0);
    for (const std::vector<std::byte>& bytes : all.value())
      for (size_t i = 0; i < values.size(); ++i) values[i] += load<double>(bytes.data(), i);
    return {};
  }

  Status gather(const std::vector<double>& mine, std::vector<double>& all) {
    auto parts = group_->all_gather(std::as_bytes(std::span(mine)));
    if (!parts.ok()) return parts.status();
    size_t at = 0;
    for (const std::vector<std::byte>& bytes : parts.value())
      for (size_t i = 0; i < bytes.size() / sizeof(double); ++i) all[at++] = load<double>(bytes.data(), i);
    return {};
  }

  const Program& program_;
  MemoryPlan plan_;
  Bindings bindings_;
  ProcessGroup* group_;
  std::vector<size_t> input_bytes_;
  std::vector<std::vector<double>> content_;
  std::vector<std::vector<double>> outputs_[kRing];
  std::vector<Span> spans_;
  uint64_t ticket_ = 0;
  bool profile_ = false;
};

class RefBackend : public Backend {
 public:
  explicit RefBackend(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {
    info_.kind = "ref";
    info_.name = "reference, double precision";
    info_.caller_memory = false;
    reference_.name = "reference";
  }
  const DeviceInfo& info() const override { return info_; }
  ProcessGroup* group() const override { return group_.get(); }
  Result<Buffer> allocate(size_t bytes) override {
    std::shared_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]());
    if (!memory) return Status(ErrorCode::kMemory, fmt::format("ref: out of memory, wanted {} bytes", bytes));
    return Buffer{memory, memory.get(), bytes};
  }
  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    std::memcpy(to.data + offset, from.data(), from.size());
    return {};
  }
  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    std::memcpy(to.data(), from.data + offset, to.size());
    return {};
  }
  std::vector<const Impl*> implementations(const OpDef&) const override { return {&reference_}; }
  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection&,
                                              const MemoryPlan& plan, const Bindings& bindings) override {
    return std::unique_ptr<Executable>(
        std::make_unique<RefExecutable>(program, plan, bindings, group_.get()));
  }

 private:
  std::shared_ptr<ProcessGroup> group_;
  DeviceInfo info_;
  Impl reference_;
};

}  // namespace

std::unique_ptr<Backend> make_ref_backend(std::shared_ptr<ProcessGroup> group) {
  return std::make_unique<RefBackend>(std::move(group));
}

std::vector<double> load_doubles(DType dtype, const std::byte* data, size_t count) {
  std::vector<double> out(count);
  for (size_t i = 0; i < count; ++i) switch (dtype) {
      case DType::f32:
        out[i] = load<float>(data, i);
        break;
      case DType::bf16:
        out[i] = to_float(load<bf16>(data, i));
        break;
      case DType::f16:
        out[i] = to_float(load<f16>(data, i));
        break;
      case DType::i32:
        out[i] = load<int32_t>(data, i);
        break;
      case DType::i64:
        out[i] = static_cast<double>(load<int64_t>(data, i));
        break;
      case DType::u8:
        out[i] = load<uint8_t>(data, i);
        break;
      case DType::f64:
        out[i] = load<double>(data, i);
        break;
    }
  return out;
}

void store_doubles(DType dtype, std::byte* data, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) switch (dtype) {
      case DType::f32:
        store(data, i, static_cast<float>(values[i]));
        break;
      case DType::bf16:
        store(data, i, to_bf16(static_cast<float>(values[i])));
        break;
      case DType::f16:
        store(data, i, to_f16(static_cast<float>(values[i])));
        break;
      case DType::i32:
        store(data, i, static_cast<int32_t>(values[i]));
        break;
      case DType::i64:
        store(data, i, static_cast<int64_t>(values[i]));
        break;
      case DType::u8:
        store(data, i, static_cast<uint8_t>(values[i]));
        break;
      case DType::f64:
        store(data, i, values[i]);
        break;
    }
}

}  // namespace lathe
