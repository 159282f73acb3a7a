// The host transport through MPI, as a library of its own: see backends/group/transport.h.
#define OMPI_SKIP_MPICXX  // the C++ bindings, long removed from the standard, are a library of their own
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "lathe/backends/group/ring_transport.h"

namespace lathe::mpi_transport {
namespace {

using group::Broken;
using group::TransportOptions;
using Clock = std::chrono::steady_clock;

void check(int code, const char* doing) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Broken{std::string(doing) + ": " + text.data()};
}

/// Ranks as a ring on a communicator of their own.
class Ring {
 public:
  explicit Ring(const TransportOptions& o)
      : rank_(o.rank), size_(o.size), timeout_(std::chrono::milliseconds(o.timeout_ms)) {
    check_launcher();
    wait_for_all(o);  // MPI itself would wait for ever for a rank that does not come
    start_mpi();
    // In the order of the ranks here, which a launcher's file may have changed.
    check(MPI_Comm_split(MPI_COMM_WORLD, 0, rank_, &ranks_), "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int rank = -1, size = 0;
    check(MPI_Comm_rank(ranks_, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(ranks_, &size), "MPI_Comm_size");
    if (rank != rank_ || size != size_)
      throw Broken{"MPI counts this process as rank " + std::to_string(rank) + " of " + std::to_string(size) +
                   ", the launcher's variables as rank " + std::to_string(rank_) + " of " +
                   std::to_string(size_) + ": leave RANK and WORLD_SIZE unset under mpirun"};
  }

  /// MPI ends on all ranks together.  Where a rank is gone it is not ended at all, since it would wait for
  /// that rank.
  ~Ring() {
    int running = 0, ended = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (running == 0 || ended != 0 || aborted_ || !error.empty()) return;
    if (ranks_ != MPI_COMM_NULL) MPI_Comm_free(&ranks_);
    MPI_Finalize();
  }

  void abort() { aborted_ = true; }

  std::string error;  ///< of the first call that failed

 private:
  static void check_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
      if (std::getenv(name) != nullptr) return;
    throw Broken{
        "--ddp_backend mpi needs processes that mpirun or srun --mpi=pmix has started; take "
        "--ddp_backend ring or gloo with others"};
  }

  static std::string key(int rank) { return "mpi/" + std::to_string(rank); }

  void wait_for_all(const TransportOptions& o) const {
    const char here = 1;
    if (!o.set(o.store, key(rank_).c_str(), &here, 1)) throw Broken{"a rank is gone"};
    char there = 0;
    for (int rank = 0; rank < size_; ++rank)
      if (o.get(o.store, key(rank).c_str(), &there, 1) <= 0) throw Broken{"not all ranks came"};
  }

  static void start_mpi() {
    // This part is loaded with local symbols, but the plug-ins that MPI loads look for MPI's names among the
    // global ones.
    Dl_info library;
    if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &library) != 0)
      dlopen(library.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    int running = 0, ended = 0, threads = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (ended != 0) throw Broken{"MPI has ended in this process and cannot start again"};
    if (running == 0)
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    else
      check(MPI_Query_thread(&threads), "MPI_Query_thread");
    if (threads < MPI_THREAD_SERIALIZED)
      throw Broken{"this MPI was built for processes of one thread; take --ddp_backend ring or gloo"};
  }

  /// Bytes are sent in pieces that MPI, which counts in `int`, can take.
  void exchange(const char* out, size_t out_bytes, char* in, size_t in_bytes) {
    constexpr size_t kMost = size_t{1} << 30;
    do {
      const size_t send = std::min(out_bytes, kMost), receive = std::min(in_bytes, kMost);
      exchange_piece(out, static_cast<int>(send), in, static_cast<int>(receive));
      out_bytes -= send, in_bytes -= receive;
      out += send, in += receive;
    } while (out_bytes > 0 || in_bytes > 0);
  }

  /// Messages under way.  Those still open when an exchange is given up are cancelled, because their buffers
  /// go.
  struct Open {
    std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    ~Open() {
      for (MPI_Request& request : requests)
        if (request != MPI_REQUEST_NULL) {
          MPI_Cancel(&request);
          MPI_Request_free(&request);
        }
    }
  };

  void exchange_piece(const char* out, int out_bytes, char* in, int in_bytes) {
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    Open open;
    if (in_bytes > 0)
      check(MPI_Irecv(in, in_bytes, MPI_BYTE, before, kTag, ranks_, &open.requests[0]), "receiving");
    if (out_bytes > 0)
      check(MPI_Isend(out, out_bytes, MPI_BYTE, next, kTag, ranks_, &open.requests[1]), "sending");
    const auto begin = Clock::now();
    for (;;) {
      int done = 0;
      check(MPI_Testall(2, open.requests.data(), &done, MPI_STATUSES_IGNORE), "waiting");
      if (done != 0) return;
      if (aborted_) throw Broken{"aborted"};
      const auto waited = Clock::now() - begin;
      if (waited > timeout_) throw Broken{"no data came in time"};
      pause(waited);
    }
  }

  /// Ranks may share a core: a rank that waits for long leaves it to the others.
  static void pause(Clock::duration waited) {
    if (waited < std::chrono::milliseconds(1))
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  static constexpr int kTag = 1;
  const int rank_, size_;
  const Clock::duration timeout_;
  std::atomic<bool> aborted_ = false;
  MPI_Comm ranks_ = MPI_COMM_NULL;

 public:
  /// Sums, broadcasts and gathers over MPI's messages between two ranks: MPI's own sums may add in another
  /// order in each run.
  group::RingOrder order{rank_, size_, [this](const void* out, size_t out_bytes, void* in, size_t in_bytes) {
                           exchange(static_cast<const char*>(out), out_bytes, static_cast<char*>(in),
                                    in_bytes);
                         }};
};

}  // namespace
}  // namespace lathe::mpi_transport

extern "C" __attribute__((visibility("default"))) bool lathe_open_transport(
    const lathe::group::TransportOptions* options, lathe::group::Transport* transport, char* error,
    size_t error_capacity) {
  return lathe::group::RingTransport<lathe::mpi_transport::Ring>::open(options, transport, error,
                                                                       error_capacity);
}
