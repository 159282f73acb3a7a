#include "lathe/backends/group/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>

#include "lathe/backends/group/strangers_testing.h"

namespace lathe::group {
namespace {

using std::chrono::steady_clock;

const std::string kRingSecret(64, 'a');
constexpr std::chrono::seconds kRingWait{5};  // of a loaded machine

/// Two ranks of the ring, whose store is a map, and strangers that come first.
TEST(Ring, StrangersAtItsPortsCostNothingAndEndNothing) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::string> values;
    std::vector<Stranger> strangers;
  } shared;
  TransportOptions options;
  options.size = 2;
  options.timeout_ms = 20000;
  options.address = "127.0.0.1";
  options.run = "test";
  options.secret = kRingSecret.c_str();
  options.store = &shared;
  options.set = [](void* store, const char* key, const char* value, size_t bytes) {
    Shared& s = *static_cast<Shared*>(store);
    const std::string place(value, bytes);
    const int port = std::stoi(place.substr(place.rfind(' ')));
    std::vector<Stranger> strangers;
    for (const std::string& noise : noises()) strangers.emplace_back(port, noise);
    const std::lock_guard lock(s.mutex);
    for (Stranger& stranger : strangers) s.strangers.push_back(std::move(stranger));
    s.values[key] = place;
    s.changed.notify_all();
    return true;
  };
  options.get = [](void* store, const char* key, char* value, size_t capacity) -> int64_t {
    Shared& s = *static_cast<Shared*>(store);
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return s.values.contains(key); });
    const std::string& found = s.values[key];
    std::memcpy(value, found.data(), std::min(found.size(), capacity));
    return static_cast<int64_t>(found.size());
  };
  const auto begin = steady_clock::now();
  const auto sum_as = [&](int rank) -> float {
    TransportOptions mine = options;
    mine.rank = rank;
    Transport transport;
    std::array<char, 512> error = {};
    if (!open_ring(&mine, &transport, error.data(), error.size())) {
      ADD_FAILURE() << error.data();
      return 0;
    }
    float value = static_cast<float>(rank + 1);
    EXPECT_TRUE(transport.sum(transport.self, &value, 1));
    transport.close(transport.self);
    return value;
  };
  auto other = std::async(std::launch::async, sum_as, 1);
  EXPECT_EQ(sum_as(0), 3);
  EXPECT_EQ(other.get(), 3);
  EXPECT_LT(steady_clock::now() - begin, kRingWait);
}

}  // namespace
}  // namespace lathe::group
