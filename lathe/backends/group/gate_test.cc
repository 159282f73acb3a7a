// Who may come in at the ports of a run: strangers, ranks of other runs, and ranks.
#include "lathe/backends/group/gate.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>

#include "lathe/backends/group/store.h"
#include "lathe/backends/group/strangers_testing.h"

namespace lathe::group {
namespace {

using std::chrono::milliseconds;

const std::string kSecret(64, 'a'), kOther(64, 'b');
constexpr double kTimeout_s = 20;
constexpr milliseconds kNever{std::chrono::hours(1)};  // longer than ctest waits for a test
const GateLimits kPatient{kNever, 16, milliseconds(5)};

World world_of(int rank, int size, int port, const std::string& secret, const std::string& run = "test") {
  return {rank, size, rank, size, "127.0.0.1", port, run, secret};
}

/// Rank 0's server, what it warned of, and its own store.
struct Host {
  explicit Host(int size, const std::string& secret = kSecret, const GateLimits& limits = kPatient,
                const std::string& run = "test")
      : server(
            world_of(0, size, 0, secret, run),
            [this](const std::string& text) {
              const std::lock_guard lock(mutex);
              warned += text + "\n";
              changed.notify_all();
            },
            limits),
        port(server.port()),
        store(world_of(0, size, port, secret, run), kTimeout_s, [this] { ++gone; }) {}

  std::string warnings() {
    const std::lock_guard lock(mutex);
    return warned;
  }
  /// A rank that was refused may know it before the server has warned of it.
  void expect_warning(const std::string& text) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return warned.find(text) != std::string::npos; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string warned;
  std::atomic<int> gone = 0;
  StoreServer server;
  int port;
  Store store;
};

std::string why_not(const World& world) {
  try {
    const Store store(world, kTimeout_s, [] {});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
}

TEST(Gate, StrangersCostNothingAndEndNothing) {
  Host host(2);
  std::vector<Stranger> strangers;
  const auto come = [&] {
    for (int round = 0; round < 4; ++round)
      for (const std::string& noise : noises()) strangers.emplace_back(host.port, noise);
  };
  come();
  std::atomic<int> gone = 0;
  Store rank_1(world_of(1, 2, host.port, kSecret), kTimeout_s, [&] { ++gone; });
  come();
  ASSERT_TRUE(host.store.set("key", std::string("value")).ok());
  const auto got = rank_1.get("key");
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(Result(got).value().size(), 5u);
  EXPECT_FALSE(rank_1.gone(0).has_value());
  EXPECT_EQ(gone + host.gone, 0);
}

TEST(Gate, WhatCannotBeAHelloEndsAtOnceAndGetsNoAnswer) {
  Host host(2);
  for (const std::string& noise : noises()) {
    const bool may_go_on = noise.size() < 12 || noise.starts_with(bytes_of(frame_of({})).substr(0, 12));
    if (may_go_on) continue;
    EXPECT_EQ(Stranger(host.port, noise).all(), "") << noise.substr(0, 12);
  }
}

TEST(Gate, ASilentOneAndOneThatDribblesEndInTime) {
  Host host(2, kSecret, {milliseconds(100), 16, milliseconds(50)});
  EXPECT_EQ(Stranger(host.port).all(), "");
  Stranger slow(host.port);
  const std::string hello = bytes_of(frame_of({.has_secret = true, .rank = 1, .size = 2}));
  std::string answer = "…";
  for (size_t i = 0; i + 1 < hello.size() && answer == "…"; ++i) {
    slow.say(hello.substr(i, 1));
    answer = slow.all_within(milliseconds(10));
  }
  EXPECT_EQ(answer, "");
}

TEST(Gate, HoldsNoMoreThanSixteenAndTheOldestMakesPlace) {
  Gate gate(listen_at("127.0.0.1", 0), world_of(0, 2, 0, kSecret), "store", [](int) { return ""; }, {},
            {kNever, 16, milliseconds(0)});
  std::vector<Stranger> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.emplace_back(gate.port());
    EXPECT_FALSE(gate.serve().has_value());
    EXPECT_LE(gate.waiting(), 16u);
  }
  EXPECT_EQ(gate.waiting(), 16u);
  EXPECT_EQ(strangers.front().all(), "");
  EXPECT_EQ(strangers.back().all_within(milliseconds(1)), "…");
}

TEST(Gate, NobodyMakesPlaceBeforeARankCouldAnswer) {
  Gate gate(listen_at("127.0.0.1", 0), world_of(0, 2, 0, kSecret), "store", [](int) { return ""; }, {},
            {kNever, 2, kNever});
  std::vector<Stranger> strangers;
  for (int i = 0; i < 5; ++i) strangers.emplace_back(gate.port());
  while (gate.waiting() < 2) (void)gate.serve();
  EXPECT_FALSE(gate.serve().has_value());
  EXPECT_EQ(gate.waiting(), 2u);
  std::vector<pollfd> wanted;
  gate.add_to(wanted);
  EXPECT_EQ(wanted.size(), 2u) << "it does not wait for those in line, which would be there at once";
  EXPECT_GT(gate.timeout_ms(), 1000);
}

/// Does what Knock does; `said`: what the rank said.  Returns the last frame that came.
std::optional<Frame> knock_by_hand(Stranger& stranger, const World& mine, std::string* said = nullptr,
                                   const std::string& door = "store", uint32_t proven_rank = 1) {
  const Hello hello{.has_secret = true, .rank = 1, .size = 2, .nonce = {std::byte{7}}};
  stranger.say(frame_of(hello));
  const auto challenge = stranger.frame();
  if (!challenge || challenge->kind != Frame::Kind::kChallenge) return challenge;
  Nonce nonce;
  std::memcpy(nonce.data(), challenge->value.data(), nonce.size());
  const Frame last{Frame::Kind::kProof, "", proof(mine, Side::kRank, door, proven_rank, hello.nonce, nonce)};
  if (said != nullptr) *said = bytes_of(frame_of(hello)) + bytes_of(last);
  stranger.say(last);
  return stranger.frame();
}

TEST(Gate, AProofIsGoodOnceForOneRankAtOneDoor) {
  Host host(2);
  const World right = world_of(1, 2, host.port, kSecret);
  const auto refused = [&](const World& world, const std::string& door, uint32_t rank) {
    Stranger stranger(host.port);
    const auto answer = knock_by_hand(stranger, world, nullptr, door, rank);
    return answer && answer->kind == Frame::Kind::kRefused;
  };
  EXPECT_TRUE(refused(right, "ring/1", 1));
  EXPECT_TRUE(refused(right, "store", 0));
  EXPECT_TRUE(refused(world_of(1, 2, host.port, kOther), "store", 1));
  EXPECT_TRUE(refused(world_of(1, 2, host.port, kSecret, "other"), "store", 1));
  EXPECT_TRUE(refused(world_of(1, 3, host.port, kSecret), "store", 1));
  std::string said;
  {
    Host first(2);
    Stranger rank(first.port);
    const auto welcome = knock_by_hand(rank, right, &said);
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->kind, Frame::Kind::kWelcome);
    EXPECT_EQ(said.size(), kHandshakeBytes);
  }
  Stranger at_once(host.port, said);
  EXPECT_EQ(at_once.frame()->kind, Frame::Kind::kChallenge);
  EXPECT_EQ(at_once.frame()->kind, Frame::Kind::kRefused);
  Stranger again(host.port, said.substr(0, 36));
  EXPECT_EQ(again.frame()->kind, Frame::Kind::kChallenge);
  again.say(said.substr(36));
  EXPECT_EQ(again.frame()->kind, Frame::Kind::kRefused);
  EXPECT_EQ(host.gone, 0);
  EXPECT_EQ(why_not(right), "") << "the rank itself is still let in";
}

TEST(Gate, OneThatSaysMoreThanItsHandshakeIsNotLetIn) {
  Host host(2);
  Stranger stranger(host.port);
  const Hello hello{.has_secret = true, .rank = 1, .size = 2};
  stranger.say(frame_of(hello));
  const auto challenge = stranger.frame();
  ASSERT_TRUE(challenge.has_value());
  stranger.say(std::string(1000, '\0'));
  EXPECT_EQ(stranger.all(), "");
}

TEST(Gate, OfTwoRanksOfOneNumberTheSecondIsSentAway) {
  Host host(3);
  const Store first(world_of(1, 3, host.port, kSecret), kTimeout_s, [] {});
  EXPECT_NE(why_not(world_of(1, 3, host.port, kSecret)).find("it has a rank 1 already"), std::string::npos);
  EXPECT_NE(why_not(world_of(0, 3, host.port, kSecret)).find("it has a rank 0 already"), std::string::npos);
  EXPECT_FALSE(host.store.gone(0).has_value());
}

TEST(Gate, ARankThatProvesItselfTwiceIsGone) {
  Host host(3);
  Stranger stranger(host.port);
  Hello hello{.has_secret = true, .rank = 1, .size = 3};
  stranger.say(frame_of(hello));
  const auto challenge = stranger.frame();
  ASSERT_TRUE(challenge.has_value());
  Nonce nonce;
  std::memcpy(nonce.data(), challenge->value.data(), nonce.size());
  stranger.say(Frame{Frame::Kind::kProof, "",
                     proof(world_of(1, 3, 0, kSecret), Side::kRank, "store", 1, hello.nonce, nonce)});
  EXPECT_EQ(stranger.frame()->kind, Frame::Kind::kWelcome);
  hello.rank = 2;
  stranger.say(frame_of(hello));
  EXPECT_EQ(stranger.all(), "");
  EXPECT_EQ(host.store.gone(kTimeout_s), 1);
}

TEST(Gate, WhoComesInHearsAtOnceWhoIsGone) {
  Host host(3);
  {
    const Store first(world_of(1, 3, host.port, kSecret), kTimeout_s, [] {});
  }
  EXPECT_EQ(host.store.gone(kTimeout_s), 1);
  const Store last(world_of(2, 3, host.port, kSecret), kTimeout_s, [] {});
  EXPECT_EQ(last.gone(kTimeout_s), 1);
}

TEST(Gate, BothSidesSayThatOneHasNoSecretOrAnother) {
  {
    Host host(2);
    EXPECT_NE(
        why_not(world_of(1, 2, host.port, "")).find("the run has a secret, this rank none: give all ranks"),
        std::string::npos);
    EXPECT_NE(why_not(world_of(1, 2, host.port, kOther)).find("it has another secret (LATHE_RUN_SECRET)"),
              std::string::npos);
    EXPECT_EQ(why_not(world_of(1, 2, host.port, kSecret)), "");
    host.expect_warning("a process that says it is rank 1 was sent away: this run has a secret, it none");
    host.expect_warning("a process with another secret, or of another run, that says it is rank 1");
  }
  Host host(2, "");
  EXPECT_NE(why_not(world_of(1, 2, host.port, kSecret)).find("the run has no secret, this rank one"),
            std::string::npos);
  host.expect_warning("this run has no secret, it one");
}

TEST(Gate, AnEmptyNameIsNoneAndNotAny) {
  for (const std::string& secret : {std::string(), kSecret}) {
    Host named(2, secret), nameless(2, secret, kPatient, "");
    EXPECT_NE(why_not(world_of(1, 2, named.port, secret, "")), "")
        << "it passes for one of a run with a name";
    EXPECT_NE(why_not(world_of(1, 2, nameless.port, secret)), "");
    EXPECT_EQ(why_not(world_of(1, 2, named.port, secret)), "");
    EXPECT_EQ(why_not(world_of(1, 2, nameless.port, secret, "")), "");
  }
  Host host(2, "");
  EXPECT_NE(why_not(world_of(1, 2, host.port, "", "")).find("it is called test, this one nothing"),
            std::string::npos);
}

TEST(Gate, WarnsAFewTimesAtMost) {
  Host host(2);
  for (int i = 0; i < 20; ++i) why_not(world_of(1, 2, host.port, ""));
  const std::string warned = host.warnings();
  EXPECT_EQ(std::count(warned.begin(), warned.end(), '\n'), 8);
}

/// What ranks of before version 2 said, and read.
TEST(Gate, AnOlderLatheIsToldSoInItsOwnWords) {
  Host host(2);
  Stranger old(host.port);
  old.say(Frame{Frame::Kind::kHello, "1", {'2', ' ', 't', 'e', 's', 't'}});
  old.say(Frame{Frame::Kind::kGet, "transports", {}});
  old.say(Frame{Frame::Kind::kSet, "transport/1", {'r', 'i', 'n', 'g'}});
  const auto answer = old.frame();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(static_cast<uint32_t>(answer->kind), 0x4c544836u);
  EXPECT_EQ(answer->key, "its Lathe is newer than this one: install the same version for all ranks");
  host.expect_warning("a rank whose Lathe is older than this one was sent away");
}

/// A door at which something else answers.
std::string why_not_at(const std::function<void(int fd)>& answer) {
  const Descriptor listening = listen_at("127.0.0.1", 0);
  auto door = std::async(std::launch::async, [&] {
    pollfd wanted{listening, POLLIN, 0};
    poll(&wanted, 1, -1);
    const Descriptor fd = accept_from(listening);
    answer(fd);
    char rest[256];
    while (recv(fd, rest, sizeof rest, 0) > 0) continue;
  });
  return why_not(world_of(1, 2, port_of(listening), kSecret));
}

TEST(Gate, ARankSaysWhatElseAnswers) {
  const auto old = [](int fd) {
    FrameReader reader;
    while (!reader.next()) ASSERT_TRUE(reader.read(fd));
    send_frame(fd, {Frame::Kind::kRefused, std::string("it has 2 processes, this one \0\x02", 31), {}});
  };
  EXPECT_NE(why_not_at(old).find("rank 0's Lathe is older than this one"), std::string::npos);
  const auto http = [](int fd) { (void)!send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0); };
  EXPECT_NE(why_not_at(http).find("what answers is no rank of Lathe's"), std::string::npos);
  const auto welcomes_all = [](int fd) { send_frame(fd, {Frame::Kind::kWelcome, "", {}}); };
  EXPECT_NE(why_not_at(welcomes_all).find("what answers is no rank of Lathe's"), std::string::npos);
  const auto wrong = [](int fd) {
    send_frame(fd, {Frame::Kind::kChallenge, "", std::vector<char>(kNonceBytes + kProofBytes)});
  };
  EXPECT_NE(why_not_at(wrong).find("it has another secret"), std::string::npos);
  const auto colours = [](int fd) { send_frame(fd, {Frame::Kind::kRefused, "\x1b[2J", {}}); };
  EXPECT_NE(why_not_at(colours).find("?[2J"), std::string::npos);
}

TEST(Gate, RanksOfOneMachineMeetOnItsLoopbackOnly) {
  Host host(2);
  EXPECT_GE(connect_to("127.0.0.1", host.port, 1000), 0);
  EXPECT_LT(connect_to("127.0.0.2", host.port, 1000), 0) << "any other address of this machine";
  const Descriptor all = listen_on(0);
  EXPECT_GE(connect_to("127.0.0.2", port_of(all), 1000), 0);
}

TEST(ListenAt, AnAddressThatIsNotOfThisMachineIsEveryAddress) {
  const Descriptor fd = listen_at("192.0.2.1", 0);  // nobody's, RFC 5737
  EXPECT_GE(connect_to("127.0.0.2", port_of(fd), 1000), 0);
}

}  // namespace
}  // namespace lathe::group
