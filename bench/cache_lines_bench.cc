// What a write and a read cost a thread, by who has had the cache line before: nanoseconds a line, all
// threads at once, medians.  cache_lines_bench [threads]: JSON lines.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <vector>

#include "lathe/core/thread_pool.h"

namespace lathe {
namespace {

constexpr int kLines = 1536;  // of each thread: what it writes of 1,024 x 768 bf16 on sixteen threads
constexpr int kCalls = 30;

struct alignas(64) Line {
  uint64_t words[8];
};

struct History {
  const char* name;
  int writer;  // as a distance from the thread that is measured
  std::vector<int> readers;
};

class Bench {
 public:
  explicit Bench(int threads)
      : pool_(threads),
        parts_(pool_.size()),
        lines_(static_cast<size_t>(parts_) * kLines),
        sums_(static_cast<size_t>(parts_)) {}

  void measure(const History& history) {
    const double write = median(history, [&](int part) { this->write(part); });
    const double read = median(history, [&](int part) { this->read(part, part); });
    fmt::print(
        "{{\"bench\":\"cache_lines\",\"threads\":{},\"before\":\"{}\",\"write_ns\":{:.1f},\"read_ns\":{:.1f}}"
        "}\n",
        parts_, history.name, write, read);
  }

 private:
  void write(int part) {
    Line* mine = &lines_[static_cast<size_t>(part) * kLines];
    for (int i = 0; i < kLines; ++i)
      for (uint64_t& word : mine[i].words) word = static_cast<uint64_t>(i);
  }
  void read(int part, int reader) {
    const Line* mine = &lines_[static_cast<size_t>(part) * kLines];
    uint64_t sum = 0;
    for (int i = 0; i < kLines; ++i) sum += mine[i].words[0];
    sums_[static_cast<size_t>(reader)].words[0] = sum;
  }

  double median(const History& history, const std::function<void(int)>& work) {
    std::vector<double> calls;
    for (int call = 0; call < kCalls; ++call) {
      pool_.run([&](int part, int parts) { write((part + history.writer) % parts); });
      for (const int reader : history.readers)  // one after the other
        pool_.run([&](int part, int parts) { read((part + reader) % parts, part); });
      std::vector<double> took(static_cast<size_t>(parts_));
      pool_.run([&](int part, int) {
        const auto begin = std::chrono::steady_clock::now();
        work(part);
        took[static_cast<size_t>(part)] =
            std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
      });
      double sum = 0;
      for (const double ns : took) sum += ns;
      calls.push_back(sum / parts_ / kLines);
    }
    std::nth_element(calls.begin(), calls.begin() + kCalls / 2, calls.end());
    return calls[kCalls / 2];
  }

  ThreadPool pool_;
  int parts_;
  std::vector<Line> lines_, sums_;
};

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  lathe::Bench bench(argc > 1 ? std::atoi(argv[1]) : 0);
  for (const lathe::History& history :
       std::vector<lathe::History>{{"written by itself", 0, {}},
                                   {"and read by 1 other", 0, {3}},
                                   {"and read by 2 others", 0, {3, 4}},
                                   {"and read by 3 others", 0, {3, 4, 5}},
                                   {"and read by 7 others", 0, {3, 4, 5, 6, 7, 8, 9}},
                                   {"written by another", 3, {}},
                                   {"written by another, read by a third", 3, {5}}})
    bench.measure(history);
}
