#include "lathe/backends/mlx/mlx_device.h"

#include <mlx/backend/metal/metal.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>

#include "lathe/backends/mlx/host_node.h"
#include "lathe/backends/mlx/metal_kernels.h"
#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/backends/mlx/mlx_executable.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/environment.h"
#include "lathe/core/host_memory.h"
#include "lathe/core/strtod_c.h"
#include "lathe/program/kernel_choices.h"
#include "lathe/program/memory_plan.h"

namespace lathe::mlx {
namespace {

/// Sums of f32 keep their digits: on GPUs with matrix units MLX would round their operands to TF32.  MLX
/// reads this at its first product.
void forbid_tf32() { setenv("MLX_ENABLE_TF32", "0", 0); }

struct TableImpl : MlxImpl {
  Arrays (*function)(const Call&) = nullptr;
  Arrays lower(const Call& call) const override { return function(call); }
};

std::set<std::string> masked_ops() {
  std::set<std::string> ops;
  const char* list = std::getenv("LATHE_MLX_MASK");
  std::istringstream names(list == nullptr ? "" : list);
  for (std::string name; std::getline(names, name, ',');) ops.insert(name);
  return ops;
}

/// A number that MLX tells of its device, 0 if it does not.
size_t device_number(const char* key) {
  const auto& facts = mx::device_info();
  const auto found = facts.find(key);
  const size_t* number = found == facts.end() ? nullptr : std::get_if<size_t>(&found->second);
  return number == nullptr ? 0 : *number;
}

/// A text that MLX tells of its device, empty if it does not.
std::string device_text(const char* key) {
  const auto& facts = mx::device_info();
  const auto found = facts.find(key);
  const std::string* text = found == facts.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}
std::string device_name() { return device_text("device_name"); }

double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

size_t memory_bytes() {
  for (const char* key : {"memory_size", "total_memory"})
    if (const size_t bytes = device_number(key)) return bytes;
  return host_memory().total.value_or(0);
}

constexpr const char* kMemoryShare = "PYTORCH_MPS_HIGH_WATERMARK_RATIO";

/// What all arrays may take.  As PyTorch reads its variable: this many times what macOS recommends for the
/// GPU, 0: MLX's own limit, and no run is refused.  Where nothing is recommended, only the variable sets a
/// limit, as a part of the memory.
std::optional<size_t> most_bytes() {
  const size_t recommended = device_number("max_recommended_working_set_size");
  const std::string set = environment(kMemoryShare);
  if (set.empty()) return recommended == 0 ? std::nullopt : std::optional(recommended);
  char* end = nullptr;
  const double share = strtod_c(set.c_str(), &end);
  if (*end != 0 || !(share >= 0 && share <= 2))
    fail(ErrorCode::kUsage, "{}: found '{}', expected a number from 0 to 2", kMemoryShare, set);
  if (share == 0) return {};
  return static_cast<size_t>(share * static_cast<double>(recommended == 0 ? memory_bytes() : recommended));
}

}  // namespace

mx::CompileMode compile_mode() {
  const bool fuse = mx::metal::is_available() || std::getenv("LATHE_MLX_FUSE") != nullptr;
  return fuse ? mx::CompileMode::enabled : mx::CompileMode::no_fuse;
}

namespace {

class MlxBackend : public Backend {
 public:
  MlxBackend(std::shared_ptr<Backend> fallback, std::shared_ptr<ProcessGroup> group, Warn warn)
      : device_{mx::new_thread_unsafe_stream(mx::default_device()), {}, {}, {}}, warn_(std::move(warn)) {
    if (group)
      device_.ranks.emplace(Ranks{std::move(group), mx::new_thread_unsafe_stream(mx::Device::cpu), {}, {}});
    info_.kind = kKind;
    describe(&info_.name);
    info_.memory_bytes = memory_bytes();
    info_.token_rounding = {64, 64};  // half as many programs as with 32
    info_.caller_memory = false;
    fill_table();
    if (fallback) host_ = host_impl(fallback, mx::new_thread_unsafe_stream(mx::Device::cpu));
    host_backend_ = std::move(fallback);
    mx::set_compile_mode(compile_mode());
    forbid_tf32();
    if (mx::metal::is_available()) mx::set_wired_limit(device_number("max_recommended_working_set_size"));
    // Of its cache, too: MLX then gives back what it kept for later before it takes more.  Limits are the
    // process's, so those of a device before this one go.
    static const size_t own_limit = mx::get_memory_limit();
    mx::set_memory_limit(most_.value_or(own_limit));
    mx::set_cache_limit(most_.value_or(own_limit));
  }

  const DeviceInfo& info() const override { return info_; }
  ProcessGroup* group() const override { return device_.ranks ? device_.ranks->group.get() : nullptr; }

  Result<Buffer> allocate(size_t bytes) override {
    if (bytes / 4 >= std::numeric_limits<int>::max())  // what a dimension of MLX holds
      return Status(ErrorCode::kMemory, fmt::format("mlx: {} bytes are more than one array takes", bytes));
    auto cell = std::make_shared<Cell>(Cell{mx::array(0)});
    const Status status = guarded(device_, "allocating", [&] {
      cell->value = mx::zeros({static_cast<int>((bytes + 3) / 4)}, mx::float32);
      cell->value.eval();
    });
    if (!status.ok()) return Status(status);
    return Buffer{cell, reinterpret_cast<std::byte*>(cell.get()), bytes};
  }

  std::optional<size_t> free_bytes() const override {
    if (!most_) return {};
    return *most_ - std::min(*most_, mx::get_active_memory());
  }

  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    return guarded(device_, "copying", [&] {
      mx::array& value = settled(to, offset + from.size());
      if (!value.is_donatable())
        value = array_of({value.data<std::byte>(), value.nbytes()}, value.shape(), value.dtype());
      std::memcpy(value.data<std::byte>() + offset, from.data(), from.size());
    });
  }
  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    return guarded(device_, "copying", [&] {
      std::memcpy(to.data(), settled(from, offset + to.size()).data<std::byte>() + offset, to.size());
    });
  }

  std::vector<const Impl*> implementations(const OpDef& op) const override {
    std::vector<const Impl*> list;
    const auto found = table_.find(op.name);
    if (found != table_.end())
      for (const auto& impl : found->second)
        if (impl->key.empty() || kernels_.use(impl->key)) list.push_back(impl.get());
    // Only plain ops that the host has: fused ones are split into these.
    if (host_ && op.fuses == nullptr && !host_backend_->implementations(op).empty())
      list.push_back(host_.get());
    return list;
  }

  std::string way_out(ErrorCode refused) const override {
    if (refused == ErrorCode::kMemory) return std::string(kMemoryShare) + " above 1 allows more";
    return refused == ErrorCode::kUnsupported ? "Set LATHE_MPS_FALLBACK=1 to run these on the CPU" : "";
  }

  /// An estimate, of masks, too, which MLX keeps for nodes that come later.
  MemoryPlan plan(const Program& program, const Selection& selection) const override {
    std::vector<Held> held;
    for (size_t n = 0; n < selection.size(); ++n)
      if (const auto holds = static_cast<const MlxImpl*>(selection[n])->holds; holds != nullptr)
        held.push_back(holds(program.nodes()[n], program));
    return plan_memory(program, selection, info_.alignment, {}, held);
  }

  std::string tuning() const override { return kernels_.text(); }
  void adopt_tuning(const std::string& text) override { kernels_.adopt(text); }

  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan&, const Bindings& bindings) override {
    warn_of_fallbacks(program, selection);
    try {
      return std::unique_ptr<Executable>(
          std::make_unique<MlxExecutable>(device_, program, selection, bindings));
    } catch (const Error& error) {
      return Status(error.code(), error.what());
    }
  }

 private:
  /// By name: this module has a copy of the declarations of its own.
  void fill_table() {
    const std::set<std::string> masked = masked_ops();
    if (mx::metal::is_available() || !environment("LATHE_MLX_OFFER_KERNELS").empty()) add_own_kernels(masked);
    for (auto entries :
         {elementwise_entries(), product_entries(), row_entries(), pooling_entries(), similarity_entries(),
          attention_entries(), loss_entries(), linear_cross_entropy_entries(), flat_entries()})
      for (const Entry& entry : entries) {
        if (!masked.contains(entry.op->name)) add(entry);
      }
  }
  MlxImpl& add(const Entry& entry) {
    auto impl = std::make_unique<TableImpl>();
    impl->name = entry.name;
    impl->function = entry.lower;
    if (entry.accepts != nullptr) impl->accepts = entry.accepts;
    if (entry.workspace_bytes != nullptr) impl->workspace_bytes = entry.workspace_bytes;
    impl->holds = entry.holds;
    return *table_[entry.op->name].emplace_back(std::move(impl));
  }

  /// Before the others: those that are used are faster.
  void add_own_kernels(const std::set<std::string>& masked) {
    const std::string chip = device_name();
    for (const OwnKernel& kernel : own_kernels()) {
      if (masked.contains(kernel.entry.op->name)) continue;
      const std::string key = kernel_key(kernel, chip);
      add(kernel.entry).key = key;
      kernels_.offer(key);
    }
  }

  void warn_of_fallbacks(const Program& program, const Selection& selection) {
    const std::lock_guard lock(device_.mutex);
    for (size_t n = 0; n < selection.size(); ++n) {
      if (!static_cast<const MlxImpl*>(selection[n])->on_host) continue;
      const char* op = program.nodes()[n].op->name;
      if (warned_.insert(op).second && warn_)
        warn_(fmt::format("device {} has no implementation of {}: it runs on the CPU", info_.kind, op));
    }
  }

  /// The buffer's content, computed and in order.
  mx::array& settled(const Buffer& buffer, size_t end) {
    if (end > buffer.bytes) fail(ErrorCode::kInternal, "mlx: {} bytes of a buffer of {}", end, buffer.bytes);
    mx::array& value = static_cast<Cell*>(buffer.owner.get())->value;
    value.eval();
    return value;
  }

  Device device_;
  DeviceInfo info_;
  const std::optional<size_t> most_ = most_bytes();
  Warn warn_;
  std::set<std::string> warned_;  // ops
  std::map<std::string, std::vector<std::unique_ptr<MlxImpl>>> table_;
  std::shared_ptr<Backend> host_backend_;  // LATHE_MPS_FALLBACK
  std::unique_ptr<MlxImpl> host_;          // what it runs
  KernelChoices kernels_{KernelVerdicts::parse(read_cache(cache_path(KernelVerdicts::kFile))),
                         kernel_setting()};
};

/// Of MLX's headers.
std::string built_version() {
  return fmt::format("{}.{}.{}", MLX_VERSION_MAJOR, MLX_VERSION_MINOR, MLX_VERSION_PATCH);
}
/// A library of a later day than its version's release adds ".dev…".
bool is_built_version(const std::string& found) {
  return found == built_version() || found.starts_with(built_version() + ".dev");
}

}  // namespace

bool describe(std::string* detail) {
  if (!is_built_version(mx::version())) {
    *detail = fmt::format(
        "found MLX {}, expected {}, for which lathe_mlx.so is built: build it anew with `make "
        "MLX=1`, or reinstall Lathe",
        mx::version(), built_version());
    return false;
  }
#if defined(__APPLE__)
  if (!mx::metal::is_available()) {
    *detail = "MLX finds no GPU; it needs Apple silicon, and a process that is not translated by Rosetta";
    return false;
  }
#endif
  const bool gpu = mx::default_device() == mx::Device::gpu;
  const std::string name = device_name();
  *detail = fmt::format("MLX {} on {}", mx::version(), !name.empty() ? name : gpu ? "a GPU" : "the CPU");
  if (const std::string family = device_text("architecture"); !family.empty()) *detail += ", " + family;
  try {
    if (const std::optional<size_t> most = most_bytes())
      *detail += fmt::format(", {:.1f} GiB of {:.1f} for runs", gib(*most), gib(memory_bytes()));
    (void)kernel_setting();
  } catch (
      const Error& error) {  // the device is there all the same: a run on it says so, none goes elsewhere
    *detail += fmt::format(", no runs: {}", error.what());
  }
  return true;
}

std::unique_ptr<Backend> make_device(std::shared_ptr<Backend> fallback, std::shared_ptr<ProcessGroup> group,
                                     Warn warn) {
  return std::make_unique<MlxBackend>(std::move(fallback), std::move(group), std::move(warn));
}

size_t live_bytes() { return mx::get_active_memory(); }
size_t peak_bytes() { return mx::get_peak_memory(); }

}  // namespace lathe::mlx
