#include "lathe/backends/group/host_group.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <utility>

#include "lathe/backends/group/ring.h"
#include "lathe/backends/group/store.h"
#include "lathe/core/program_path.h"
#include "lathe/core/run_secret.h"

namespace lathe::group {
namespace {

constexpr double kVerdict_s = 5;  // between a broken connection and the news of who is gone

/// Whether anybody who reaches rank 0 can pose as a rank.
bool is_open_to_others(const World& world) {
  const bool loopback = world.address.starts_with("127.") || world.address == "::1";
  return world.secret.empty() && !loopback;
}

std::string open_to_others(const World& world) {
  return fmt::format(
      "the ranks have no secret: whoever reaches {}, port {}, can pass for one; give all ranks one secret "
      "({}, or "
      "{} with the path of a file)",
      world.address, world.port, kRunSecret, kRunSecretFile);
}

class HostGroup : public ProcessGroup {
 public:
  HostGroup(const World& world, const TransportLibrary& transport, double timeout_s, const Warn& warn)
      : world_(world), timeout_s_(timeout_s) {
    if (world.rank == 0) server_ = std::make_unique<StoreServer>(world, warn);
    if (world.rank == 0 && warn && is_open_to_others(world)) warn(open_to_others(world));
    store_ = std::make_unique<Store>(world, timeout_s, [this] { abort(); });
    check_transports(transport.name);
    TransportOptions options;
    options.rank = world.rank;
    options.size = world.size;
    options.timeout_ms = static_cast<int64_t>(timeout_s * 1e3);
    options.address = store_->local_address().c_str();
    options.run = world.run.c_str();
    options.secret = world.secret.c_str();
    options.store = store_.get();
    options.set = [](void* store, const char* key, const char* value, size_t bytes) {
      return static_cast<Store*>(store)->set(key, {value, bytes}).ok();
    };
    options.get = [](void* store, const char* key, char* value, size_t capacity) -> int64_t {
      const auto found = static_cast<Store*>(store)->get(key);
      if (!found.ok()) return -1;
      const std::vector<char> content = Result<std::vector<char>>(found).value();
      std::memcpy(value, content.data(), std::min(capacity, content.size()));
      return static_cast<int64_t>(content.size());
    };
    std::array<char, 512> error = {};
    Transport opened;
    if (!transport.open(&options, &opened, error.data(), error.size())) failed(error.data()).check();
    const std::lock_guard lock(mutex_);
    transport_ = opened;
  }

  /// The transport is closed first: ranks that end it together (MPI) must not take another rank's end for a
  /// failure.
  ~HostGroup() override {
    if (std::uncaught_exceptions() > 0) abort();  // this rank fails: nothing may wait for the others
    Transport last;
    {
      const std::lock_guard lock(mutex_);
      last = std::exchange(transport_, {});  // from now on what the store notices does not matter
    }
    if (last.close != nullptr) last.close(last.self);
  }

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  int local_rank() const override { return world_.local_rank; }
  int local_size() const override { return world_.local_size; }

  Status sum(std::span<float> values, DType wire) override {
    if (const Status same = begin(Call::kSum, values.size() * size_of(wire)); !same.ok()) return same;
    if (wire == DType::bf16) return sum_as_bf16(values);
    return outcome(transport_.sum(transport_.self, values.data(), values.size()));
  }

  Status broadcast(std::span<std::byte> bytes, int root) override {
    if (const Status same = begin(Call::kBroadcast, bytes.size()); !same.ok()) return same;
    return outcome(transport_.broadcast(transport_.self, bytes.data(), bytes.size(), root));
  }

  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) override {
    if (const Status same = begin(Call::kGather, mine.size()); !same.ok()) return same;
    // A rank may give nothing, which cannot be sent: so a byte goes before its data.
    std::vector<std::byte> padded(1), all;
    padded.insert(padded.end(), mine.begin(), mine.end());
    std::vector<size_t> with_byte;
    size_t total = 0;
    for (const Begun& begun : begun_) with_byte.push_back(begun.bytes + 1), total += begun.bytes + 1;
    all.resize(total);
    if (!transport_.gather(transport_.self, padded.data(), with_byte.data(), all.data()))
      return outcome(false);
    std::vector<std::vector<std::byte>> gathered;
    auto at = all.begin();
    for (const size_t size : with_byte) {
      gathered.emplace_back(at + 1, at + static_cast<long>(size));
      at += static_cast<long>(size);
    }
    return gathered;
  }

  Status gather_parts(std::span<float> values, std::span<const int64_t> counts) override {
    if (const Status same = begin(Call::kGatherParts, values.size_bytes()); !same.ok()) return same;
    part_bytes_.clear();
    const float* mine = values.data();
    for (int r = 0; r < world_.size; ++r) {
      const int64_t count = counts[static_cast<size_t>(r)];
      if (r < world_.rank) mine += count;
      part_bytes_.push_back(static_cast<size_t>(count) * sizeof(float));
    }
    return outcome(transport_.gather(transport_.self, mine, part_bytes_.data(), values.data()));
  }

  Status barrier() override {
    float nothing = 0;
    return sum({&nothing, 1}, DType::f32);
  }

  std::optional<int> gone() const override { return store_->gone(0); }

 private:
  enum class Call : uint64_t { kSum, kBroadcast, kGather, kGatherParts };
  /// The call that a rank is about to make.
  struct Begun {
    Call call;
    uint64_t bytes;
    std::string text() const {
      constexpr std::array kNames = {"sums", "broadcasts", "gathers", "gathers parts of"};
      return fmt::format("{} {} bytes", kNames[static_cast<size_t>(call)], bytes);
    }
  };

  /// Rank 0 compares the calls of all ranks.  The others ask for the outcome before they send their own call,
  /// since rank 0 may end after that.
  void check_transports(const std::string& mine) {
    const std::string outcome_key = "transports";
    store_->ask(outcome_key).check();
    store_->set(transport_key(world_.rank), mine).check();
    if (world_.rank == 0) store_->set(outcome_key, compare_transports(mine)).check();
    const std::string different = text(store_->wait_for(outcome_key));
    if (!different.empty()) fail(ErrorCode::kUsage, "{}", different);
  }

  static std::string transport_key(int rank) { return "transport/" + std::to_string(rank); }

  /// The message where they differ, else "".
  std::string compare_transports(const std::string& mine) const {
    std::string different;
    for (int rank = 1; rank < world_.size; ++rank)
      if (const std::string other = text(store_->get(transport_key(rank))); other != mine)
        different = fmt::format(
            "--ddp_backend: rank 0 has {}, rank {} has {}: all ranks must take one, which all have installed",
            mine, rank, other);
    return different;
  }

  std::string text(const Result<std::vector<char>>& told) const {
    if (!told.ok()) failed(told.status().message()).check();
    const std::vector<char> content = Result(told).value();
    return {content.begin(), content.end()};
  }

  /// Ranks that make different calls would misread what the others send.  Gloo even ends the process, on a
  /// thread of its own, when more data comes than it expects.
  Status begin(Call call, uint64_t bytes) {
    const Begun mine = {call, bytes};
    begun_.resize(static_cast<size_t>(world_.size));
    const std::vector<size_t> sizes(begun_.size(), sizeof mine);
    if (!transport_.gather(transport_.self, &mine, sizes.data(), begun_.data())) return outcome(false);
    const Begun& first = begun_.front();
    for (size_t rank = 1; rank < begun_.size(); ++rank) {
      const Begun& other = begun_[rank];
      if (other.call == first.call && (other.bytes == first.bytes || call == Call::kGather)) continue;
      return {ErrorCode::kInternal, fmt::format("rank 0 {}, rank {} {}: the ranks do not do the same run",
                                                first.text(), rank, other.text())};
    }
    return {};
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    if (transport_.abort != nullptr) transport_.abort(transport_.self);
  }

  Status sum_as_bf16(std::span<float> values) {
    rounded_.resize(values.size());
    std::transform(values.begin(), values.end(), rounded_.begin(), [](float x) { return to_bf16(x); });
    const bool good = transport_.sum_bf16(transport_.self, rounded_.data(), rounded_.size());
    std::transform(rounded_.begin(), rounded_.end(), values.begin(), [](bf16 x) { return to_float(x); });
    return outcome(good);
  }

  Status outcome(bool good) const { return good ? Status() : failed(transport_.why(transport_.self)); }

  /// Finds the rank that caused a failure.  A connection that breaks may belong to a rank that only saw
  /// another one go.
  Status failed(const std::string& detail) const {
    if (const auto rank = store_->gone(kVerdict_s))
      return {ErrorCode::kIo,
              fmt::format("rank {} is gone: its process ended or its machine does not answer", *rank)};
    return {ErrorCode::kIo,
            fmt::format("rank {}: the other ranks did not come within {} s (--ddp_timeout), or "
                        "the network failed ({})",
                        world_.rank, timeout_s_, detail)};
  }

  const World world_;
  const double timeout_s_;
  std::mutex mutex_;  // of transport_ while it is opened
  Transport transport_;
  std::vector<bf16> rounded_;       // what sum sends
  std::vector<size_t> part_bytes_;  // of gather_parts
  std::vector<Begun> begun_;        // by rank, including the call under way
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Store> store_;  // last, so that it goes first: its thread calls abort()
};

}  // namespace

TransportLibrary find_transport(const std::string& name) {
  if (name == "ring") return {name, open_ring, "part of this program"};
  if (name.empty()) {
    const TransportLibrary gloo = find_transport("gloo");
    return gloo.open != nullptr ? gloo : find_transport("ring");
  }
  const std::string file = "liblathe_" + name + ".so";
  std::string why = file + " is not here";
  for (const std::string& path : part_places(file)) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      if (void* entry = dlsym(library, kTransportEntry))
        return {name, reinterpret_cast<OpenTransport>(entry), path};
    const char* text = dlerror();
    why = fmt::format("{} does not load ({})", path, text == nullptr ? "no reason given" : text);
  }
  const std::string needs = name == "gloo"  ? "Gloo (Debian, Ubuntu: libgloo-dev)"
                            : name == "mpi" ? "Open MPI (Debian, Ubuntu: libopenmpi-dev)"
                                            : name;
  return {name, nullptr,
          fmt::format("{}; it is built where {} is installed, and needs that to load", why, needs)};
}

std::unique_ptr<ProcessGroup> join(const World& world, const TransportLibrary& transport, double timeout_s,
                                   const Warn& warn) {
  return std::make_unique<HostGroup>(world, transport, timeout_s, warn);
}

}  // namespace lathe::group
