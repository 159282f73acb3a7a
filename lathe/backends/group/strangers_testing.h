#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lathe/backends/group/handshake.h"
#include "lathe/backends/group/socket.h"

namespace lathe::group {

/// A connection that can send anything.
class Stranger {
 public:
  explicit Stranger(int port, const std::string& says = "") : fd_(connect_to("127.0.0.1", port, 5000)) {
    say(says);
  }
  void say(const std::string& bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(const Frame& frame) { send_frame(fd_, frame); }
  /// What comes until the other end closes.
  std::string all() {
    std::string all;
    char piece[256];
    for (ssize_t got; (got = recv(fd_, piece, sizeof piece, 0)) > 0;)
      all.append(piece, static_cast<size_t>(got));
    return all;
  }
  /// The same; "…" at the end: it did not close in time.
  std::string all_within(std::chrono::milliseconds limit) {
    std::string all;
    const auto until = std::chrono::steady_clock::now() + limit;
    for (char piece[256];;) {
      pollfd wanted{fd_, POLLIN, 0};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
              .count();
      if (left <= 0 || poll(&wanted, 1, static_cast<int>(left)) <= 0) return all + "…";
      const ssize_t got = recv(fd_, piece, sizeof piece, 0);
      if (got <= 0) return all;
      all.append(piece, static_cast<size_t>(got));
    }
  }
  std::optional<Frame> frame() {
    for (;;) {
      if (auto found = reader_.next()) return found;
      if (!reader_.read(fd_)) return {};
    }
  }

 private:
  Descriptor fd_;
  FrameReader reader_;
};

/// The frame as bytes on the wire.
inline std::string bytes_of(const Frame& frame) {
  const uint32_t head[3] = {static_cast<uint32_t>(frame.kind), static_cast<uint32_t>(frame.key.size()),
                            static_cast<uint32_t>(frame.value.size())};
  std::string all(reinterpret_cast<const char*>(head), sizeof head);
  return all + frame.key + std::string(frame.value.begin(), frame.value.end());
}

/// What scanners, browsers, mistakes and older ranks send.
inline std::vector<std::string> noises() {
  const uint32_t hello = static_cast<uint32_t>(Frame::Kind::kHello), giant = 0x7fffffff, zero = 0;
  const auto head = [](uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t all[3] = {a, b, c};
    return std::string(reinterpret_cast<const char*>(all), sizeof all);
  };
  return {"",
          "G",
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
          std::string(100000, 'x'),
          std::string(64, '\0'),
          head(hello, 0, giant),
          head(hello, giant, giant),
          head(hello, 0xffffffff, 0xffffffff),
          head(hello, zero, 24),  // and no more
          bytes_of({Frame::Kind::kSet, "ring/0", {'x'}}),
          bytes_of({Frame::Kind::kGet, "ring/0", {}}),
          bytes_of({Frame::Kind::kGone, "0", {}}),
          bytes_of(frame_of({.has_secret = true, .rank = 1, .size = 2})),  // a hello without a proof
          bytes_of(frame_of({.has_secret = true, .rank = 1, .size = 2})) +
              bytes_of({Frame::Kind::kProof, "", std::vector<char>(kProofBytes)})};
}

}  // namespace lathe::group
