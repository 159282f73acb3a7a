#include "lathe/data/balanced_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

namespace lathe {
namespace {

constexpr double kQuadratic = 0.001;

class Balance {
 public:
  Balance(std::span<const int32_t> lengths, int64_t steps, int64_t ranks)
      : lengths_(lengths), ranks_(ranks), groups_(static_cast<size_t>(steps * ranks)) {
    const auto n = static_cast<int64_t>(lengths.size()), k = steps * ranks;
    for (int64_t i = 0; i < k; ++i) counts_.push_back(n / k + (i < n % k ? 1 : 0));
    frozen_.resize(groups_);
  }

  /// The counts of the least spread seen.
  std::vector<int64_t> climb() {
    std::set<std::vector<int64_t>> seen;
    std::vector<int64_t> best = counts_;
    double best_spread = std::numeric_limits<double>::infinity();
    const size_t most = std::max(groups_ * 30, lengths_.size());
    for (size_t i = 0; i < most && seen.insert(counts_).second; ++i) {
      const std::vector<double> costs = this->costs(counts_);
      const std::vector<size_t> active = cheapest_first(costs);
      if (active.size() <= 1) break;
      const size_t dearest = first_of(active, costs, costs[active.back()]);
      const double spread = costs[dearest] - costs[active.front()];
      if (spread < best_spread) best_spread = spread, best = counts_;
      if (spread == 0) break;
      if (counts_[dearest] > 1) {
        --counts_[dearest];
        ++counts_[active.front()];
      } else {
        relieve(dearest, costs);
      }
    }
    return best;
  }

  std::vector<double> costs(const std::vector<int64_t>& counts) const {
    std::vector<double> all;
    int64_t begin = 0;
    for (const int64_t count : counts) {
      all.push_back(cost(count, begin));
      begin += count;
    }
    return all;
  }

  /// Group numbers, the dearest first, those of one cost in order.
  static std::vector<size_t> dearest_first(const std::vector<double>& costs) {
    std::vector<size_t> order(costs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
    return order;
  }

 private:
  double cost(int64_t count, int64_t begin) const {
    if (count == 0) return 0;
    const double n = static_cast<double>(count), longest = lengths_[static_cast<size_t>(begin)];
    return n * longest + kQuadratic * n * longest * longest;
  }

  std::vector<size_t> cheapest_first(const std::vector<double>& costs) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < groups_; ++i)
      if (!frozen_[i]) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] < costs[b]; });
    return order;
  }

  /// The lowest number among those of this cost.
  static size_t first_of(const std::vector<size_t>& order, const std::vector<double>& costs, double cost) {
    return *std::find_if(order.begin(), order.end(), [&](size_t i) { return costs[i] == cost; });
  }

  /// A group of one sample cannot become cheaper: the other groups of its step are filled up to its cost, and
  /// that step does not change from then on.
  void relieve(size_t dearest, const std::vector<double>& costs) {
    const std::vector<size_t> order = dearest_first(costs);
    const auto rank = std::find(order.begin(), order.end(), dearest) - order.begin();
    const auto begin = rank / ranks_ * ranks_;
    const std::set<size_t> step(order.begin() + begin, order.begin() + begin + ranks_);
    for (const size_t group : step)
      while (!frozen_[group] && group != dearest && take_one(group, step, costs[dearest])) {
      }
    for (const size_t group : step) frozen_[group] = true;
  }

  bool take_one(size_t group, const std::set<size_t>& step, double most) {
    const auto begin =
        std::accumulate(counts_.begin(), counts_.begin() + static_cast<int64_t>(group), int64_t{0});
    if (cost(counts_[group] + 1, begin) > most) return false;
    const std::vector<double> now = costs(counts_);
    std::optional<size_t> donor;
    for (size_t i = 0; i < groups_; ++i)
      if (!frozen_[i] && !step.count(i) && counts_[i] > 1 && (!donor || now[i] < now[*donor])) donor = i;
    if (!donor) return false;
    ++counts_[group];
    --counts_[*donor];
    return true;
  }

  std::span<const int32_t> lengths_;
  int64_t ranks_;
  size_t groups_;
  std::vector<int64_t> counts_;
  std::vector<bool> frozen_;
};

}  // namespace

std::vector<SampleGroup> balanced_groups(std::span<const int32_t> lengths, int64_t steps, int64_t ranks) {
  Balance balance(lengths, steps, ranks);
  const std::vector<int64_t> counts = balance.climb();
  std::vector<int64_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), int64_t{0});
  std::vector<SampleGroup> groups;
  for (const size_t i : Balance::dearest_first(balance.costs(counts)))
    groups.push_back({begins[i], counts[i]});
  return groups;
}

}  // namespace lathe
