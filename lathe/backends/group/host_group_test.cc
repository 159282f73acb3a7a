#include "lathe/backends/group/host_group.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <vector>

#include "lathe/backends/group/socket.h"
#include "lathe/core/float16.h"

namespace lathe::group {
namespace {

constexpr double kLong_s = 60;

int free_port() { return port_of(listen_on(0)); }

World local_world(int rank, int size, int port) {
  return {rank, size, rank, size, "127.0.0.1", port, "test", std::string(64, 's')};
}

/// Runs `work` as every rank, each in a process of its own; the exit code of each, or −signal.  An Error's
/// message goes to stderr.
std::vector<int> run_ranks(const std::string& transport, int size,
                           const std::function<int(ProcessGroup&)>& work) {
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    int code = 99;
    try {
      const auto group = join(local_world(rank, size, port), find_transport(transport), kLong_s);
      code = work(*group);
      (void)group->barrier();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    _exit(code);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
  return codes;
}

/// A transport, and how many ranks.
class HostGroup : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    if (const TransportLibrary library = find_transport(transport()); library.open == nullptr)
      GTEST_SKIP() << library.detail;
  }
  static std::string transport() { return std::get<0>(GetParam()); }
  static int size() { return std::get<1>(GetParam()); }
  static std::vector<int> all_zero() { return std::vector<int>(static_cast<size_t>(size()), 0); }
};

TEST_P(HostGroup, EveryRankGetsTheSameBitsOfASum) {
  const auto codes = run_ranks(transport(), size(), [](ProcessGroup& group) {
    for (const size_t count : {size_t{1}, size_t{3}, size_t{1000}, size_t{1} << 20}) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i)
        values[i] = std::sin(static_cast<float>(i + 1)) * static_cast<float>(group.rank() + 1);
      if (!group.sum(values).ok()) return 1;
      const double ranks = group.size() * (group.size() + 1) / 2.0;
      for (size_t i = 0; i < count; ++i) {
        const double wanted = static_cast<double>(std::sin(static_cast<float>(i + 1))) * ranks;
        if (std::abs(values[i] - wanted) > 1e-6 * ranks) return 2;
      }
      const auto all = group.all_gather(std::as_bytes(std::span(values)));
      if (!all.ok()) return 3;
      for (const auto& other : Result(all).value())
        if (std::memcmp(other.data(), values.data(), other.size()) != 0) return 4;
    }
    return 0;
  });
  EXPECT_EQ(codes, all_zero());
}

TEST_P(HostGroup, ASumInBf16IsRoundedAtEachAdditionAndTheSameBitsForAll) {
  const auto codes = run_ranks(transport(), size(), [](ProcessGroup& group) {
    constexpr double kUnit = 1.0 / 256;  // half the distance of bf16 numbers near 1
    for (const size_t count : {size_t{1}, size_t{5}, size_t{1} << 20}) {
      const auto value = [](int rank, size_t i) {
        return std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 1));
      };
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = value(group.rank(), i);
      if (!group.sum(values, DType::bf16).ok()) return 1;
      for (size_t i = 0; i < count; ++i) {
        double wanted = 0, size = 0;
        for (int r = 0; r < group.size(); ++r) wanted += value(r, i), size += std::abs(value(r, i));
        // One rounding of each number and of each sum; none is larger than size · (1 + unit)^ranks.
        const double bound = group.size() * kUnit * size * std::pow(1 + kUnit, group.size());
        if (std::abs(values[i] - wanted) > bound || to_float(to_bf16(values[i])) != values[i]) return 2;
      }
      const auto all = group.all_gather(std::as_bytes(std::span(values)));
      if (!all.ok()) return 3;
      for (const auto& other : Result(all).value())
        if (std::memcmp(other.data(), values.data(), other.size()) != 0) return 4;
    }
    return 0;
  });
  EXPECT_EQ(codes, all_zero());
}

TEST_P(HostGroup, GathersPartsWhereTheyLie) {
  const auto codes = run_ranks(transport(), size(), [](ProcessGroup& group) {
    for (const int64_t first : {1, 1000, 300000}) {
      std::vector<int64_t> counts;
      int64_t total = 0, begin = 0;
      for (int r = 0; r < group.size(); ++r) {
        if (r == group.rank()) begin = total;
        counts.push_back(first + 17 * r);
        total += counts.back();
      }
      const int64_t end = begin + counts[static_cast<size_t>(group.rank())];
      std::vector<float> values(static_cast<size_t>(total), -1);
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
      if (!group.gather_parts(values, counts).ok()) return 1;
      for (int64_t i = 0; i < total; ++i)
        if (values[static_cast<size_t>(i)] != static_cast<float>(i)) return 2;
    }
    return 0;
  });
  EXPECT_EQ(codes, all_zero());
}

TEST_P(HostGroup, GathersWhatEachRankGivesAndBroadcastsWhatOneHas) {
  const auto codes = run_ranks(transport(), size(), [](ProcessGroup& group) {
    const std::vector<std::byte> mine(static_cast<size_t>(group.rank()) * 1000, std::byte{7});
    const auto all = group.all_gather(mine);
    if (!all.ok()) return 1;
    const auto parts = Result(all).value();
    for (size_t r = 0; r < parts.size(); ++r)
      if (parts[r] != std::vector<std::byte>(r * 1000, std::byte{7})) return 2;
    std::vector<std::byte> told(300, static_cast<std::byte>(group.rank()));
    const int root = group.size() - 1;
    if (!group.broadcast(told, root).ok()) return 3;
    return told == std::vector<std::byte>(300, static_cast<std::byte>(root)) ? 0 : 4;
  });
  EXPECT_EQ(codes, all_zero());
}

TEST_P(HostGroup, CallsThatDifferAreAnErrorOfAllRanks) {
  using Call = std::function<Status(ProcessGroup&, size_t)>;
  const Call sum = [](ProcessGroup& group, size_t size) {
    std::vector<float> values(size);
    return group.sum(values);
  };
  const Call broadcast = [](ProcessGroup& group, size_t size) {
    std::vector<std::byte> bytes(size);
    return group.broadcast(bytes, 0);
  };
  const Call parts = [](ProcessGroup& group, size_t size) {
    std::vector<float> values(size * static_cast<size_t>(group.size()));
    const std::vector<int64_t> counts(static_cast<size_t>(group.size()), static_cast<int64_t>(size));
    return group.gather_parts(values, counts);
  };
  const Call gather = [](ProcessGroup& group, size_t size) {
    return group.all_gather(std::vector<std::byte>(size)).status();
  };
  struct Pair {
    Call first, last;
    size_t first_size, last_size;
    std::string wanted;
  };
  const std::vector<Pair> pairs = {
      {sum, sum, 1000, 300000, "sums 4000 bytes, rank {} sums 1200000 bytes"},
      {sum, sum, 300000, 1000, "sums 1200000 bytes, rank {} sums 4000 bytes"},
      {broadcast, broadcast, 10, 20, "broadcasts 10 bytes, rank {} broadcasts 20 bytes"},
      {parts, parts, 10, 20, "rank {} gathers parts of"},
      {sum, gather, 8, 32, "sums 32 bytes, rank {} gathers 32 bytes"}};
  for (const Pair& pair : pairs) {
    const auto codes = run_ranks(transport(), size(), [&](ProcessGroup& group) {
      const bool last = group.rank() + 1 == group.size();
      const Status status = (last ? pair.last : pair.first)(group, last ? pair.last_size : pair.first_size);
      if (status.ok()) return 1;
      if (status.message().find(fmt::format(fmt::runtime(pair.wanted), group.size() - 1)) !=
          std::string::npos)
        return 0;
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 2;
    });
    EXPECT_EQ(codes, all_zero()) << pair.wanted;
  }
}

TEST_P(HostGroup, ARankThatIsKilledIsNamedByAllOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const int victim = size() - 1;
  auto codes = run_ranks(transport(), size(), [&](ProcessGroup& group) {
    std::vector<float> values(1 << 20, 1.0f);
    for (int round = 0;; ++round) {
      if (group.rank() == victim && round == 3) kill(getpid(), SIGKILL);
      const Status status = group.sum(values);
      if (status.ok()) continue;
      const std::string wanted = "rank " + std::to_string(victim) + " is gone";
      values.resize(values.size() * 4);  // outside the memory of the call that may still be under way
      if (group.sum(values).ok()) return 2;
      return status.message().starts_with(wanted) && group.gone() == victim ? 0 : 1;
    }
  });
  EXPECT_EQ(codes.back(), -SIGKILL);
  codes.back() = 0;
  EXPECT_EQ(codes, all_zero());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_P(HostGroup, TheRankThatKeepsTheStoreIsNamedToo) {
  auto codes = run_ranks(transport(), size(), [](ProcessGroup& group) {
    Status status = group.barrier();
    if (group.rank() == 0) kill(getpid(), SIGKILL);
    if (status.ok()) status = group.barrier();  // else it died while others were still within the first
    return status.message().starts_with("rank 0 is gone") ? 0 : 1;
  });
  EXPECT_EQ(codes.front(), -SIGKILL);
  codes.front() = 0;
  EXPECT_EQ(codes, all_zero());
}

INSTANTIATE_TEST_SUITE_P(Transports, HostGroup,
                         testing::Combine(testing::Values("gloo", "ring"), testing::Values(2, 3, 4)),
                         [](const auto& run) {
                           return std::get<0>(run.param) + std::to_string(std::get<1>(run.param));
                         });

/// Each rank 0 waits for seconds: those of both transports at once.
TEST(HostGroupAlone, WithoutTheOthersItEndsInTime) {
  std::vector<std::future<void>> joins;
  for (const char* name : {"gloo", "ring"})
    if (const TransportLibrary library = find_transport(name); library.open != nullptr)
      joins.push_back(std::async(std::launch::async, [name, library] {
        EXPECT_THROW(join(local_world(0, 2, free_port()), library, 0.5), Error) << name;
        EXPECT_THROW(join(local_world(1, 2, free_port()), library, 0.5), Error) << name;
      }));
}

/// What `join` says to two ranks with these transports, where it fails.
std::array<std::string, 2> why_not(const std::string& first, const std::string& second) {
  const int port = free_port();
  const auto why = [port](int rank, const std::string& transport) -> std::string {
    try {
      join(local_world(rank, 2, port), find_transport(transport), kLong_s);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  auto other = std::async(std::launch::async, why, 1, second);
  const std::string said = why(0, first);
  return {said, other.get()};
}

TEST(HostGroupAlone, RanksWithOtherTransportsSayBoth) {
  if (const TransportLibrary gloo = find_transport("gloo"); gloo.open == nullptr) GTEST_SKIP() << gloo.detail;
  for (const std::string& said : why_not("ring", "gloo"))
    EXPECT_TRUE(said.starts_with("--ddp_backend: rank 0 has ring, rank 1 has gloo")) << said;
}

/// A firewall's silence: nobody takes connections here, and no more of them fit the queue.
TEST(HostGroupAlone, AnAddressThatDoesNotAnswerIsTriedNoLongerThanItIsTold) {
  const Descriptor full(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof name;
  const auto address = reinterpret_cast<sockaddr*>(&name);
  ASSERT_EQ(bind(full, address, bytes), 0);
  ASSERT_EQ(listen(full, 0), 0);
  ASSERT_EQ(getsockname(full, address, &bytes), 0);
  std::vector<Descriptor> queue;
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    fcntl(queue.back(), F_SETFL, O_NONBLOCK);
    (void)connect(queue.back(), address, bytes);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(join(local_world(1, 2, port_of(full)), find_transport("ring"), 0.5), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

/// Two ranks that have met at a port, on the ring.
std::array<std::unique_ptr<ProcessGroup>, 2> pair_at(int port) {
  auto other = std::async(std::launch::async,
                          [port] { return join(local_world(1, 2, port), find_transport("ring"), kLong_s); });
  auto first = join(local_world(0, 2, port), find_transport("ring"), kLong_s);
  return {std::move(first), other.get()};
}

TEST(HostGroupAlone, ARankOfAnotherRunAtTheSamePortIsSentAwayAndHarmsNone) {
  const int port = free_port();
  const auto pair = pair_at(port);
  const auto expect_refused = [&](const World& world, const std::string& wanted) {
    try {
      join(world, find_transport("ring"), 30);
      ADD_FAILURE() << "it was let in";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
  };
  expect_refused(local_world(1, 2, port), "it has a rank 1 already");
  expect_refused(local_world(2, 3, port), "it has 2 processes, this one 3");
  World other_name = local_world(1, 2, port);
  other_name.run = "night";
  expect_refused(other_name, "it has another secret (LATHE_RUN_SECRET), or there is another run");
  auto other = std::async(std::launch::async, [&] { return pair[1]->barrier().ok(); });
  EXPECT_TRUE(pair[0]->barrier().ok());
  EXPECT_TRUE(other.get());
  EXPECT_FALSE(pair[0]->gone().has_value());
}

TEST(HostGroupAlone, Rank0WarnsWhereOthersCanReachItAndThereIsNoSecret) {
  const auto warnings = [](const std::string& address, const std::string& secret) {
    World world = local_world(0, 2, free_port());
    world.address = address;
    world.secret = secret;
    auto other = std::async(std::launch::async, [world]() mutable {
      world.rank = 1;
      return join(world, find_transport("ring"), kLong_s,
                  [](const std::string&) { ADD_FAILURE() << "rank 1"; });
    });
    std::string warned;
    const auto group =
        join(world, find_transport("ring"), kLong_s, [&](const std::string& text) { warned += text; });
    other.get();
    return warned;
  };
  EXPECT_TRUE(warnings("localhost", "").starts_with("the ranks have no secret: whoever reaches localhost"));
  EXPECT_EQ(warnings("localhost", std::string(32, 's')), "");
  EXPECT_EQ(warnings("127.0.0.1", ""), "");
}

TEST(FindTransport, TakesTheRingWhereThereIsNoGloo) {
  EXPECT_EQ(find_transport("").open,
            find_transport(find_transport("gloo").open != nullptr ? "gloo" : "ring").open);
}

TEST(FindTransport, SaysWhatToInstall) {
  const TransportLibrary none = find_transport("pigeons");
  EXPECT_EQ(none.open, nullptr);
  EXPECT_NE(none.detail.find("liblathe_pigeons.so is not here"), std::string::npos) << none.detail;
}

}  // namespace
}  // namespace lathe::group
