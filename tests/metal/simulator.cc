// Compiled without -fsanitize=thread, so that it watches only kernels; with LATHE_TSAN it is told of fibers.
#include "tests/metal/simulator.h"

#include <map>
#include <string>
#include <vector>

#ifdef LATHE_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#define TSAN(x) x
#else
#define TSAN(x)
#endif

extern "C" {
/// Goes on at `to`; a later call that goes on at *from returns here.  (swapcontext asks the system for the
/// mask of signals, and takes fifty times as long.)
void lathe_switch(void** from, void* to);
asm(R"(
lathe_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr size_t kSwitchPushes = 6;

extern char __start_threadgroup[] __attribute__((weak)), __stop_threadgroup[] __attribute__((weak));

/// libgcc 12 has none.
__bf16 __truncsfbf2(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint16_t high =
      static_cast<uint16_t>(nan ? (bits >> 16 | 0x40u) : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  __bf16 result;
  __builtin_memcpy(&result, &high, 2);
  return result;
}
}

namespace lathe::metal {
namespace {

constexpr uint32_t kLanes = 32;
constexpr size_t kStack = 1 << 16;
constexpr unsigned kNoOrder = 1;  // a switch of fibers orders no memory

std::map<std::string, Entry>& entries() {
  static std::map<std::string, Entry> all;
  return all;
}

struct Lane {
  void* at = nullptr;  // where it continues
  std::vector<char> stack = std::vector<char>(kStack);
  Place place;
  Waiting waiting = kDone;
  const char* what = "its end";
  void* site = nullptr;
  void* fiber = nullptr;  // TSan's
  int collective = 0;     // parity: a lane may be one ahead of another
  float parts[2][4] = {};
};

struct Launch {
  std::vector<Lane> lanes;
  void* main = nullptr;
  void* main_fiber = nullptr;
  Lane* current = nullptr;
  Entry entry = nullptr;
  void** arguments = nullptr;
  bool backwards = false;
  int started = 0, ended = 0, barrier = 0;  // addresses for TSan
};
Launch* launch = nullptr;
std::string failure;

void leave() {
  TSAN(__tsan_switch_to_fiber(launch->main_fiber, kNoOrder);)
  lathe_switch(&launch->current->at, launch->main);
}

void run_lane() {
  Lane* lane = launch->current;
  TSAN(__tsan_acquire(&launch->started);)
  launch->entry(launch->arguments, lane->place);
  TSAN(__tsan_release(&launch->ended);)
  lane->waiting = kDone;
  lane->what = "its end";
  lane->site = nullptr;
  leave();
}

void enter(Lane& lane) {
  launch->current = &lane;
  TSAN(__tsan_switch_to_fiber(lane.fiber, kNoOrder);)
  lathe_switch(&launch->main, lane.at);
}
/// The lane begins when it is entered.
void prepare(Lane& lane) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(lane.stack.data() + lane.stack.size()) / 16 * 16;
  void** frame = reinterpret_cast<void**>(end) - 2;  // as a call leaves it, which nothing returns to
  frame[0] = reinterpret_cast<void*>(run_lane);
  frame[1] = nullptr;
  lane.at = frame - kSwitchPushes;
}

const Lane* simdgroup() {
  return &launch->lanes[launch->current->place.simdgroup_index_in_threadgroup * kLanes];
}

Lane& nth(size_t n, size_t first, size_t count) {
  return launch->lanes[first + (launch->backwards ? count - 1 - n : n)];
}

bool all_wait(size_t first, size_t count, Waiting waiting) {
  for (size_t i = first; i < first + count; ++i)
    if (launch->lanes[i].waiting != waiting || launch->lanes[i].site != launch->lanes[first].site)
      return false;
  return true;
}
void release(size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) launch->lanes[i].waiting = kRuns;
}

/// Until every lane of it is at a threadgroup barrier or has ended; false if they part.
bool run_simdgroup(size_t first) {
  for (;;) {
    for (size_t n = 0; n < kLanes; ++n)
      if (Lane& lane = nth(n, first, kLanes); lane.waiting == kRuns) enter(lane);
    if (all_wait(first, kLanes, kAtBarrier) || all_wait(first, kLanes, kDone)) return true;
    if (!all_wait(first, kLanes, kAtSimd)) return false;
    release(first, kLanes);
  }
}

bool run_group() {
  const size_t count = launch->lanes.size();
  for (;;) {
    for (size_t n = 0; n < count / kLanes; ++n) {
      const size_t simdgroup = launch->backwards ? count / kLanes - 1 - n : n;
      if (launch->lanes[simdgroup * kLanes].waiting == kRuns && !run_simdgroup(simdgroup * kLanes))
        return false;
    }
    if (all_wait(0, count, kDone)) return true;
    if (!all_wait(0, count, kAtBarrier)) return false;
    release(0, count);
  }
}

void prepare_group(uint32_t group) {
  for (char* byte = __start_threadgroup; byte != __stop_threadgroup; ++byte)
    *const_cast<volatile char*>(byte) = -1;  // NaN
  const uint32_t count = static_cast<uint32_t>(launch->lanes.size());
  for (uint32_t t = 0; t < count; ++t) {
    Lane& lane = launch->lanes[t];
    lane.place = {{group * count + t, 0, 0}, {group, 0, 0}, t, t % kLanes, t / kLanes, count / kLanes};
    lane.waiting = kRuns;
    lane.collective = 0;
    prepare(lane);
  }
}

}  // namespace

void declare(const char* name, Entry entry) { entries()[name] = entry; }

void wait(Waiting waiting, const char* what, void* site) {
  Lane* lane = launch->current;
  lane->waiting = waiting;
  lane->what = what;
  lane->site = site;
  TSAN(if (waiting == kAtBarrier) __tsan_release(&launch->barrier);)
  leave();
  TSAN(if (waiting == kAtBarrier) __tsan_acquire(&launch->barrier);)
}

float shared(float x, uint32_t other, const char* what, void* site) {
  Lane* lane = launch->current;
  lane->parts[lane->collective ^= 1][0] = x;
  wait(kAtSimd, what, site);
  return simdgroup()[other].parts[lane->collective][0];
}
float sum(float x, const char* what, void* site) {
  shared(x, 0, what, site);
  float sum = 0;
  for (uint32_t i = 0; i < kLanes; ++i) sum += simdgroup()[i].parts[launch->current->collective][0];
  return sum;
}
Pair multiply(Pair a, Pair b, Pair c, const char* what, void* site) {
  Lane* lane = launch->current;
  float* parts = lane->parts[lane->collective ^= 1];
  parts[0] = a[0], parts[1] = a[1], parts[2] = b[0], parts[3] = b[1];
  wait(kAtSimd, what, site);
  const Lane* lanes = simdgroup();
  const uint32_t row = place().thread_index_in_simdgroup / 4, pair = place().thread_index_in_simdgroup % 4;
  for (uint32_t k = 0; k < 8; ++k) {
    const float* of_b = lanes[k * 4 + pair].parts[lane->collective] + 2;
    const float of_a = lanes[row * 4 + k / 2].parts[lane->collective][k % 2];
    c += of_a * Pair{of_b[0], of_b[1]};
  }
  return c;
}
const Place& place() { return launch->current->place; }

}  // namespace lathe::metal

extern "C" const char* lathe_simulate(const char* kernel, void** arguments, uint32_t groups, uint32_t threads,
                                      int order) {
  using namespace lathe::metal;
  failure.clear();
  const auto found = entries().find(kernel);
  if (found == entries().end()) {
    failure = "the simulator has no such kernel";
    return failure.c_str();
  }
  Launch now;
  launch = &now;
  now.lanes.resize(threads);
  now.entry = found->second;
  now.arguments = arguments;
  now.backwards = order != 0;
  TSAN(now.main_fiber = __tsan_get_current_fiber();)
  TSAN(for (Lane& lane : now.lanes) lane.fiber = __tsan_create_fiber(0);)
  for (uint32_t n = 0; n < groups && failure.empty(); ++n) {
    prepare_group(now.backwards ? groups - 1 - n : n);
    TSAN(__tsan_release(&now.started);)
    if (!run_group()) {
      failure = "lanes part";
      for (const Lane& lane : now.lanes)
        if (lane.waiting != now.lanes[0].waiting || lane.site != now.lanes[0].site) {
          failure += std::string(": one is at ") + now.lanes[0].what + ", another at " + lane.what;
          break;
        }
    }
    TSAN(__tsan_acquire(&now.ended);)
  }
  TSAN(for (Lane& lane : now.lanes) __tsan_destroy_fiber(lane.fiber);)
  return failure.empty() ? nullptr : failure.c_str();
}
