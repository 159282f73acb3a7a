#include "lathe/backends/group/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace lathe::group {
namespace {

constexpr uint32_t kMostBytes = 16 << 20;  // of a frame's key or value: a longer one is not ours
constexpr int kSendTimeout_s = 10;
#if defined(__linux__)
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

/// A socket that child processes do not inherit.
Descriptor new_socket(int family, int type, int protocol) {
  Descriptor fd(socket(family, type, protocol));
  if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);  // an option that a system does not know is left out
}

bool send_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(fd, at, bytes, kNoSignal);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

/// −1 where nobody answers in time; the system by itself would try for two minutes.
Descriptor connect_within(const addrinfo& to, int limit_ms) {
  Descriptor fd = new_socket(to.ai_family, to.ai_socktype, to.ai_protocol);
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  if (connect(fd, to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Descriptor();
    pollfd wanted{fd, POLLOUT, 0};
    int ready = 0, error = 0;
    do ready = poll(&wanted, 1, limit_ms);
    while (ready < 0 && errno == EINTR);
    socklen_t bytes = sizeof error;
    if (ready <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0)
      return Descriptor();
  }
  fcntl(fd, F_SETFL, flags);
  return fd;
}

socklen_t size_of(const sockaddr_storage& name) {
  return name.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool is_loopback(const sockaddr_storage& name) {
  constexpr uint32_t kFirstByte = 24, kLoopback = 127;
  if (name.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in&>(name).sin_addr.s_addr) >> kFirstByte == kLoopback;
}

/// False: errno says why.
bool begin_to_listen(int fd, sockaddr_storage name, int port) {
  constexpr int kWaiting = 1024;  // ranks that may knock at once
  const auto number = htons(static_cast<uint16_t>(port));
  if (name.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(name).sin6_port = number;
  else
    reinterpret_cast<sockaddr_in&>(name).sin_port = number;
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  return bind(fd, reinterpret_cast<const sockaddr*>(&name), size_of(name)) == 0 && listen(fd, kWaiting) == 0;
}

[[noreturn]] void fail_to_listen(int port) {
  fail(ErrorCode::kIo,
       "port {} cannot be used ({}); name one that is free with --master_port of lathe launch, else "
       "MASTER_PORT",
       port, std::strerror(errno));
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor listen_on(int port) {
  Descriptor fd = new_socket(AF_INET6, SOCK_STREAM, 0);
  const bool six = fd >= 0;
  if (!six) fd = new_socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_storage any = {};
  any.ss_family = six ? AF_INET6 : AF_INET;
  if (six) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!begin_to_listen(fd, any, port)) fail_to_listen(port);
  return fd;
}

Descriptor listen_at(const std::string& name, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  const bool is_address = getaddrinfo(name.c_str(), nullptr, &hints, &found) == 0;
  hints.ai_flags = 0;
  if (!is_address && getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return listen_on(port);
  sockaddr_storage one = {};
  std::memcpy(&one, found->ai_addr, found->ai_addrlen);
  const bool several = found->ai_next != nullptr;
  freeaddrinfo(found);
  if (several || (!is_address && is_loopback(one))) return listen_on(port);
  Descriptor fd = new_socket(one.ss_family, SOCK_STREAM, 0);
  if (begin_to_listen(fd, one, port)) return fd;
  if (errno != EADDRNOTAVAIL) fail_to_listen(port);
  return listen_on(port);
}

Descriptor accept_from(int listening) {
  fcntl(listening, F_SETFL, fcntl(listening, F_GETFL) | O_NONBLOCK);
  Descriptor fd(accept(listening, nullptr, nullptr));
  if (fd < 0) return fd;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // macOS hands it on
  return fd;
}

int port_of(int fd) {
  sockaddr_storage name = {};
  socklen_t bytes = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

Descriptor connect_to(const std::string& address, int port, int limit_ms) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) fail(ErrorCode::kIo, "MASTER_ADDR {}: {}", address, gai_strerror(error));
  Descriptor connected;
  for (const addrinfo* a = found; a != nullptr && connected < 0; a = a->ai_next)
    connected = connect_within(*a, limit_ms);
  freeaddrinfo(found);
  return connected;
}

std::string local_address(int fd) {
  sockaddr_storage name = {};
  socklen_t bytes = sizeof name;
  std::array<char, 256> text = {};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&name), bytes, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "127.0.0.1";
  return text.data();
}

void tune(int fd) {
  constexpr int kIdle_s = 6, kBetween_s = 3, kProbes = 4;
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdle_s);
#elif defined(TCP_KEEPALIVE)
  set(fd, IPPROTO_TCP, TCP_KEEPALIVE, kIdle_s);
#endif
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetween_s);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
#if !defined(__linux__)
  set(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  const timeval limit{kSendTimeout_s, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool send_frame(int fd, const Frame& frame) {
  std::vector<char> bytes(3 * sizeof(uint32_t));
  const uint32_t head[3] = {static_cast<uint32_t>(frame.kind), static_cast<uint32_t>(frame.key.size()),
                            static_cast<uint32_t>(frame.value.size())};
  std::memcpy(bytes.data(), head, sizeof head);
  bytes.insert(bytes.end(), frame.key.begin(), frame.key.end());
  bytes.insert(bytes.end(), frame.value.begin(), frame.value.end());
  return send_all(fd, bytes.data(), bytes.size());
}

bool FrameReader::read(int fd, size_t most) {
  std::array<char, 4096> piece;
  most = std::min({most, piece.size(), left_});
  if (broken_ || most == 0) return false;
  ssize_t got = 0;
  do got = recv(fd, piece.data(), most, 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  left_ -= static_cast<size_t>(got);
  bytes_.insert(bytes_.end(), piece.begin(), piece.begin() + got);
  return true;
}

size_t FrameReader::missing() const {
  uint32_t head[3] = {};
  if (bytes_.size() < sizeof head) return sizeof head - bytes_.size();
  std::memcpy(head, bytes_.data(), sizeof head);
  return sizeof head + head[1] + head[2] - bytes_.size();
}

std::optional<Frame> FrameReader::next() {
  uint32_t head[3];
  if (broken_ || bytes_.size() < sizeof head) return {};
  std::memcpy(head, bytes_.data(), sizeof head);
  const bool known =
      head[0] - static_cast<uint32_t>(Frame::Kind::kHello) <=
      static_cast<uint32_t>(Frame::Kind::kWelcome) - static_cast<uint32_t>(Frame::Kind::kHello);
  const size_t key = sizeof head, value = key + head[1], end = value + head[2];
  broken_ = !known || head[1] > kMostBytes || head[2] > kMostBytes ||
            (end > bytes_.size() && end - bytes_.size() > left_);
  if (broken_ || bytes_.size() < end) return {};
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(head[0]);
  frame.key.assign(bytes_.data() + key, head[1]);
  frame.value.assign(bytes_.begin() + static_cast<long>(value), bytes_.begin() + static_cast<long>(end));
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<long>(end));
  return frame;
}

}  // namespace lathe::group
