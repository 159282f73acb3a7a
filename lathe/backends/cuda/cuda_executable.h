#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/graph.h"
#include "lathe/backends/cuda/kernels/transfer.h"
#include "lathe/backends/cuda/rounded_states.h"

namespace lathe::cuda {

/// What all programs of a device share.  Programs use streams, products and rounded states in turn.
struct Device {
  std::mutex mutex;
  int ordinal;  ///< the runtime's number of the GPU
  Stream compute;
  Stream sides[kLateKinds];  ///< what is late runs here, by Late
  Stream copies;             ///< inputs travel here while the run before computes
  Products& products;
  RoundedStates& rounded;
  const Nccl* nccl = nullptr;
  Stream messages;  ///< nodes with own_queue run here
};

/// While it lives, only its thread gives the device work: what one thread launches on a stream while another
/// captures it would become a part of that one's graph.  The runtime's current GPU is each thread's own.
class Exclusive {
 public:
  explicit Exclusive(Device& device) : lock_(device.mutex) { cudaSetDevice(device.ordinal); }

 private:
  std::lock_guard<std::mutex> lock_;
};

/// A program as one CUDA graph: captured once, replayed by every run.  A run copies its inputs through pinned
/// memory, so that the host waits for the device only where it is more than kRing runs ahead.
class CudaExecutable : public Executable {
 public:
  /// Errors: kMemory, kInternal.
  CudaExecutable(Device& device, const Program& program, const Selection& selection, const MemoryPlan& plan,
                 const Bindings& bindings);
  ~CudaExecutable() override;

  Status run(const Slot& slot, Event* event) override;
  Status wait(Event event) override;
  Status read(Event event, size_t index, std::span<std::byte> destination) override;
  /// The graph's nodes that are no events.
  Result<Launches> launches(const Slot&) override { return graph_->launches(); }
  void profile(bool on) override;
  std::vector<Span> timeline() const override;

 private:
  struct Step {
    const CudaImpl* impl;
    int node;
    Call call;
  };
  /// A piece of the arena that crosses between host and device, and its place in the ring's pieces.
  struct Crossing {
    std::byte* device;
    size_t bytes;
    bool crosses = true;  ///< false: an output that is copied when it is read
    size_t offset = 0;
  };
  /// Memory of one run in flight.
  struct InFlight {
    std::byte *inputs = nullptr, *staged = nullptr, *outputs = nullptr;  // pinned, device, pinned
    Mark copied, done;
    uint64_t ticket = 0;
  };

  void lay_out_ring();
  void use_rounded(Call& call, const MemoryPlan& plan);
  std::unique_ptr<Graph> capture(bool timed);
  void launch(InFlight& flight);
  Status copy_out(std::span<std::byte> to, const Crossing& output);

  void begin();
  void launch(size_t step, const Call& call);
  void launch_message(const CudaImpl& impl, Call call);
  void join_late(size_t kind, size_t nodes);
  void join_late(const Call& reader);
  void join_messages(size_t messages);
  void join_messages(const Call& reader);

  Device& device_;
  Bindings bindings_;  // keeps the memory alive
  std::vector<std::shared_ptr<RoundedState>> read_, written_;
  std::vector<std::pair<std::shared_ptr<RoundedState>, RoundedState::Written>> updated_;
  std::vector<Step> steps_;
  std::vector<Crossing> inputs_, outputs_;
  std::vector<size_t> input_sizes_;
  size_t input_bytes_ = 0;
  std::vector<Scatter> scatters_;
  Buffer pinned_, staged_, own_;
  InFlight ring_[kRing];
  std::unique_ptr<Graph> graph_, timed_graph_;
  struct Piece {
    const std::byte* data;
    size_t bytes;
  };
  static bool reads(const Call& reader, const std::vector<Piece>& pieces);
  /// The part of a late node that a side stream may still be computing.
  struct LateNode {
    std::vector<Piece> outputs;
    cudaEvent_t done;
  };
  /// What the messages stream may still be writing.
  struct Message {
    std::vector<Piece> outputs;
    std::unique_ptr<Mark> done;
  };
  Mark fork_, late_done_[kLateKinds][2];
  std::vector<std::unique_ptr<Mark>> begun_;  // by step
  // While capturing:
  std::vector<LateNode> late_[kLateKinds];    // by Late: the last two at most
  std::vector<Message> messages_;             // one after the other
  std::vector<std::unique_ptr<Mark>> marks_;  // of the timed graph: one before each step, one after all
  uint64_t ticket_ = 0;
  bool profile_ = false;
};

}  // namespace lathe::cuda
